package agentrun

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ekiden-dev/ekiden/controllers/ledger"
	"github.com/ekiden-dev/ekiden/runtime/contract"
)

// errForeignSecret says that somebody else has made the Secret that holds the namespace's login.
var errForeignSecret = fmt.Errorf("key %s of Secret %s is not the DSN that this namespace's login should have: delete the Secret, and it is made anew", contract.PostgresKey, contract.PostgresSecret)

// provision makes sure that the namespace has a login and a Secret that holds it. The Secret comes first: it is the
// only place where the password is, so whatever it says is then given to the login.
func (r *Reconciler) provision(ctx context.Context, ns *corev1.Namespace) error {
	t := ledger.Tenant{Namespace: ns.Name, NamespaceUID: ns.UID}
	var secret corev1.Secret
	key := client.ObjectKey{Namespace: ns.Name, Name: contract.PostgresSecret}
	err := r.Client.Get(ctx, key, &secret)
	if apierrors.IsNotFound(err) {
		if err = r.makeSecret(ctx, t); apierrors.IsAlreadyExists(err) {
			err = nil
		}
		if err == nil {
			err = r.Client.Get(ctx, key, &secret)
		}
	}
	if err != nil {
		return fmt.Errorf("secret %s: %w", key, err)
	}
	u, err := url.Parse(string(secret.Data[contract.PostgresKey]))
	if err != nil || u.User == nil {
		return errForeignSecret
	}
	ours := false
	if t.Slot, ours = ledger.SlotOf(ns.UID, u.User.Username()); !ours {
		return errForeignSecret
	}
	t.Password, _ = u.User.Password()
	if want, err := r.dsn(t); err != nil || want != u.String() {
		return errors.Join(err, errForeignSecret)
	}
	if err = r.Ledger.Provision(ctx, t); errors.Is(err, ledger.ErrPassword) {
		return errForeignSecret
	}
	return err
}

// makeSecret makes the Secret with a login that was not in it before: who deletes it rotates the login. Pods that were started with
// the one before it go on with that until they end.
func (r *Reconciler) makeSecret(ctx context.Context, t ledger.Tenant) (err error) {
	if t.Slot, err = r.Ledger.NextSlot(ctx, t.NamespaceUID); err != nil {
		return err
	}
	t.Password = rand.Text()
	dsn, err := r.dsn(t)
	if err != nil {
		return err
	}
	return r.Client.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: t.Namespace, Name: contract.PostgresSecret, Labels: labels},
		Type:       corev1.SecretTypeOpaque,
		Data:       map[string][]byte{contract.PostgresKey: []byte(dsn)},
	})
}

// withLogin is the address with another login.
func withLogin(address, user, password string) (string, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		// The error of url.Parse would repeat the address, password and all.
		return "", fmt.Errorf("the address of Postgres for segments is not a URL such as postgres://host:5432/ekiden")
	}
	u.User = url.UserPassword(user, password)
	return u.String(), nil
}

// Provision makes sure that the namespace has a login and a Secret that holds it, for what else runs there. It says what stands
// in the way until somebody does something, or nothing.
func (r *Reconciler) Provision(ctx context.Context, ns *corev1.Namespace) (unfit string, err error) {
	f, err := r.provisioned(ctx, ns)
	return f.taken + f.blocked, err
}
