package cli

import (
	"errors"

	"github.com/spf13/afero"
	"github.com/spf13/cobra"

	"watershed.example/refbroker/internal/defect"
	"watershed.example/refbroker/internal/dump"
)

// dumpLogCommand prints files of a partition in Kafka's dump format (BAR-7).
func dumpLogCommand(fs afero.Fs) *cobra.Command {
	var files, defects []string
	var o dump.Options
	cmd := &cobra.Command{
		Use:   "dump-log --files FILE[,FILE...]",
		Short: "Print segments, indexes, producer snapshots and transaction indexes, as Kafka's dump tool does",
		Long: `Print the files of a partition, in the format of Kafka's own dump tool; it reads files that Kafka wrote too.
MIRROR_PID_RESET records are named as that tool names them: MirrorPidReset, with version and source cluster id.
A damaged file is printed as far as it is whole.`,
		Example: `  refbroker dump-log --print-data-log --files refbroker-data/logs/orders-0/00000000000000000000.log
  refbroker dump-log --files 00000000000000000042.snapshot,00000000000000000000.txnindex`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			set, err := defect.Parse(defects)
			if err != nil {
				return err
			}
			o.NotNamed = set.Has(defect.BarrierNotNamed)
			var errs []error
			for _, f := range files {
				errs = append(errs, dump.File(cmd.OutOrStdout(), fs, f, o))
			}
			return errors.Join(errs...)
		},
	}
	cmd.Flags().StringSliceVar(&files, "files", nil, "the files to print, separated by commas")
	cmd.Flags().BoolVar(&o.Deep, "deep-iteration", false, "print each record below its batch")
	cmd.Flags().BoolVar(&o.Data, "print-data-log", false, "print keys and payloads; implies --deep-iteration")
	// As serve has it: what the suite must see of a tool, too.
	cmd.Flags().StringSliceVar(&defects, "defect", nil, "make the tool wrong on purpose")
	_ = cmd.Flags().MarkHidden("defect")
	_ = cmd.MarkFlagRequired("files") // fails only for a flag that is not there
	return cmd
}
