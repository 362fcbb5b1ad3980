package cluster

import (
	"context"
	"fmt"
)

// Prepare makes what a manager finds when it is installed: its namespace, its database, and the Secret with the DSN.
func (c *Cluster) Prepare(ctx context.Context) error {
	dsn, err := c.database(ctx)
	if err != nil {
		return fmt.Errorf("making the database: %w", err)
	}
	_, err = c.KubectlIn(ctx, fmt.Sprintf(`apiVersion: v1
kind: Namespace
metadata: {name: %[1]s, labels: {pod-security.kubernetes.io/enforce: restricted}}
---
apiVersion: v1
kind: Secret
metadata: {name: ekiden-manager-postgres, namespace: %[1]s}
stringData: {dsn: %[2]q}
`, ManagerNamespace, dsn), "apply", "-f", "-")
	return err
}
