package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"watershed.example/refbroker/internal/broker"
)

// formatCommand makes a data folder before the first start.
func formatCommand(h Host) *cobra.Command {
	var dir, cluster string
	var node int32
	cmd := &cobra.Command{
		Use:   "format",
		Short: "Make the data folder of a node, before its first start",
		Long: `Make the data folder of a node, before its first start, and say whose it is. The nodes of one cluster have one cluster id:
leave it out for the first one, whose folder gets a random id, and give that to the others. A folder that is another
node's, or another cluster's, is refused; one that is this node's already stays as it is.

"refbroker serve" makes a folder too where there is none; formatting first catches a wrong path or a wrong id
before anything is served from it.`,
		Example: `  refbroker format --data-dir /var/lib/refbroker --node-id 1
  refbroker format --data-dir /var/lib/refbroker --node-id 2 --cluster-id BgLeA7Q5S3uR1wVHzTd0Fw`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f := serveFlags{dataDir: dir, nodeID: node, clusterID: cluster}
			if err := f.checkIdentity(); err != nil {
				return usageError{err}
			}
			id, made, err := broker.Format(h.FS, dir, cluster, node)
			if err != nil {
				return err
			}
			done := "formatted"
			if !made {
				done = "is formatted already"
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s %s: node %d of cluster %s\n", dir, done, node, id)
			return err
		},
	}
	cmd.Flags().StringVar(&dir, "data-dir", "./refbroker-data", "folder of all data; made when it is missing")
	cmd.Flags().Int32Var(&node, "node-id", 1, "id of this node in its cluster")
	cmd.Flags().StringVar(&cluster, "cluster-id", "", "id of the cluster (default random)")
	return cmd
}
