package cli

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"watershed.example/refbroker/internal/auth"
	"watershed.example/refbroker/internal/broker"
	"watershed.example/refbroker/internal/wire"
)

// securityFlags say what listeners ask of their clients.
type securityFlags struct {
	protocols, mechanisms         []string
	cert, key, clientCA, usersAre string
}

func (f *securityFlags) register(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.protocols, "security", nil, "what a listener asks for, `LISTENER=PROTOCOL`: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL (repeatable; default PLAINTEXT)")
	flags.StringVar(&f.cert, "tls-cert", "", "`FILE` in PEM: certificate of the listeners with TLS, and those that vouch for it")
	flags.StringVar(&f.key, "tls-key", "", "`FILE` in PEM: its key")
	flags.StringVar(&f.clientCA, "tls-client-ca", "", "`FILE` in PEM: whose certificates clients must show (default clients need none)")
	flags.StringVar(&f.usersAre, "sasl-users", "", "`FILE` of lines NAME=PASSWORD: who may connect where SASL is asked for")
	flags.StringArrayVar(&f.mechanisms, "sasl-mechanism", nil, "a `MECHANISM` that clients may choose: "+strings.Join(auth.Mechanisms(), ", ")+" (repeatable; default all)")
}

// set gives the listeners what is asked for. What is given and asks for nothing is
// a mistake, since who gives it believes that something is safe.
func (f *securityFlags) set(cfg *broker.Config) error {
	asked := map[string]auth.Protocol{}
	var needTLS, needSASL bool
	for _, text := range f.protocols {
		name, protocol, ok := strings.Cut(text, "=")
		if !ok {
			return fmt.Errorf("--security %q: want LISTENER=PROTOCOL", text)
		}
		if !slices.ContainsFunc(cfg.Listeners, func(l broker.Listener) bool { return l.Name == name }) {
			return fmt.Errorf("--security %q: there is no listener %q", text, name)
		}
		if _, twice := asked[name]; twice {
			return fmt.Errorf("--security %q: listener %q was given before", text, name)
		}
		p, err := auth.ParseProtocol(protocol)
		if err != nil {
			return fmt.Errorf("--security %q: %w", text, err)
		}
		asked[name] = p
		needTLS, needSASL = needTLS || p.TLS(), needSASL || p.SASL()
	}
	if err := f.complete(needTLS, needSASL); err != nil {
		return err
	}
	all, err := f.load(needTLS, needSASL)
	if err != nil {
		return err
	}
	for i, l := range cfg.Listeners {
		if asked[l.Name].TLS() {
			cfg.Listeners[i].Security.TLS = all.TLS
		}
		if asked[l.Name].SASL() {
			cfg.Listeners[i].Security.SASL = all.SASL
		}
	}
	return nil
}

// complete refuses files that are missing, or of no use.
func (f *securityFlags) complete(needTLS, needSASL bool) error {
	for _, c := range []struct {
		flag, value string
		needed      bool // by a listener
		optional    bool
		by          string
	}{
		{"tls-cert", f.cert, needTLS, false, "SSL or SASL_SSL"},
		{"tls-key", f.key, needTLS, false, "SSL or SASL_SSL"},
		{"tls-client-ca", f.clientCA, needTLS, true, "SSL or SASL_SSL"},
		{"sasl-users", f.usersAre, needSASL, false, "SASL_PLAINTEXT or SASL_SSL"},
		{"sasl-mechanism", strings.Join(f.mechanisms, ","), needSASL, true, "SASL_PLAINTEXT or SASL_SSL"},
	} {
		switch {
		case c.needed && c.value == "" && !c.optional:
			return fmt.Errorf("--%s is missing: a listener asks for %s", c.flag, c.by)
		case !c.needed && c.value != "":
			return fmt.Errorf("--%s %s: no listener asks for %s by --security", c.flag, c.value, c.by)
		}
	}
	return nil
}

// load reads the files once for all listeners: keys are derived of each password.
func (f *securityFlags) load(needTLS, needSASL bool) (all wire.Security, err error) {
	if needTLS {
		if all.TLS, err = auth.ServerTLS(f.cert, f.key, f.clientCA); err != nil {
			return all, err
		}
	}
	if !needSASL {
		return all, nil
	}
	in, err := os.Open(f.usersAre)
	if err != nil {
		return all, fmt.Errorf("--sasl-users: %w", err)
	}
	users, err := auth.ReadUsers(in)
	_ = in.Close() // it was only read
	if err != nil {
		return all, fmt.Errorf("--sasl-users %s: %w", f.usersAre, err)
	}
	if all.SASL, err = auth.NewServer(users, f.mechanisms...); err != nil {
		return all, fmt.Errorf("--sasl-mechanism: %w", err)
	}
	return all, nil
}
