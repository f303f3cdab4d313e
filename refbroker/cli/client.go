package cli

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"

	"github.com/magiconair/properties"
	"github.com/spf13/pflag"
	"github.com/twmb/franz-go/pkg/kgo"

	"watershed.example/refbroker/internal/auth"
)

// clientFlags are those of the commands that are clients of a cluster.
type clientFlags struct {
	dial              dialFunc
	bootstrap, config string
}

func (f *clientFlags) register(flags *pflag.FlagSet, whose string) {
	flags.StringVar(&f.bootstrap, "bootstrap-server", "127.0.0.1:9092", "`HOST:PORT` of a broker of "+whose+", or of several with commas between: one that is down is passed over")
	flags.StringVar(&f.config, "command-config", "", "`FILE` of properties by Kafka's names, for a cluster with TLS or SASL: security.protocol, sasl.mechanism, sasl.jaas.config, ssl.truststore.location (PEM) …")
}

// client makes a client of the cluster.
func (f *clientFlags) client(id string, more ...kgo.Opt) (*kgo.Client, error) {
	who := &auth.Client{}
	if f.config != "" {
		configs, err := readProperties("command-config", f.config)
		if err != nil {
			return nil, err
		}
		for _, name := range slices.Sorted(maps.Keys(configs)) {
			if !auth.Known(name) {
				return nil, fmt.Errorf("--command-config %s: %q is not known", f.config, name)
			}
		}
		if who, err = auth.ReadClient(configs); err != nil {
			return nil, fmt.Errorf("--command-config %s: %w", f.config, err)
		}
	}
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		return who.Dial(ctx, f.dial, network, address)
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(f.bootstrap, ",")...), kgo.Dialer(dial), kgo.ClientID(id), kgo.RequestRetries(3), kgo.DisableClientMetrics(),
	}
	if who.SASL != nil {
		options = append(options, kgo.SASL(who.SASL))
	}
	cl, err := kgo.NewClient(append(options, more...)...)
	if err != nil {
		return nil, fmt.Errorf("--bootstrap-server %q: %w", f.bootstrap, err)
	}
	return cl, nil
}

// readProperties reads a file of a flag, in the format of Java's properties. What
// looks like a reference in a value is none.
func readProperties(flag, path string) (map[string]string, error) {
	loader := properties.Loader{Encoding: properties.UTF8, DisableExpansion: true}
	p, err := loader.LoadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", flag, err)
	}
	return p.Map(), nil
}
