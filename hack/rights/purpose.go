package rights

// Purpose is what a right is for.
type Purpose struct {
	Right
	Why string
	// Asked says who asks for the right where the account makes no request of its own with it, Rarely when else it is used than in
	// any story. Such rights show in no audit log.
	Asked, Rarely string
}

const (
	ours      = "ekiden.dev"
	admission = "admissionregistration.k8s.io"
	leases    = "coordination.k8s.io"
	// owner is who asks whether an account may name an owner that is not to go before its dependents.
	owner = "the admission plugin OwnerReferencesPermissionEnforcement"
	// crash is when an object is there that the manager does not know to have made.
	crash = "after a crash between two writes"
)

// Manager are the purposes of the manager's rights.
func Manager() []Purpose {
	all := []Purpose{
		{Right{"", "configmaps", "get", ""}, "reads the ConfigMap that input.from of a run names", "", ""},
		{Right{"", "events", "list", ""}, "finds out why a Job has no pod: a quota or a policy that refuses it shows only there", "", ""},
		{Right{"", "namespaces", "get", ""}, "sees whether a namespace is being deleted before it makes a login there", "", ""},
		{Right{"", "secrets", "create", ""}, "keeps the login of a namespace there, for the pods of its runs", "", ""},
		{Right{"", "secrets", "get", "ekiden-postgres"}, "reads that login back", "", ""},
		{Right{"batch", "jobs", "create", ""}, "makes a Job for each segment, and for each look at a tool server", "", ""},
		{Right{"batch", "jobs", "delete", ""}, "stops a run that was cancelled, and clears a Job that is over", "", ""},
		{Right{"batch", "jobs", "get", ""}, "looks whether a Job of the name is its own", "", ""},
		{Right{leases, "leases", "create", ""}, "makes the lease of leader election, and the one beside it that remembers how far Postgres had counted", "", ""},
		{Right{leases, "leases", "get", "ekiden-ledger"}, "reads how far Postgres had counted, to notice that it was restored to an earlier moment", "", ""},
		{Right{leases, "leases", "update", "ekiden-ledger"}, "writes that down every ten seconds", "", ""},
		{Right{leases, "leases", "get", "ekiden-manager"}, "reads who leads", "", ""},
		{Right{leases, "leases", "update", "ekiden-manager"}, "takes, renews and returns the lease", "", ""},
		{Right{ours, "agentdefinitions/finalizers", "update", ""}, "owns the revisions of a definition", owner, ""},
		{Right{ours, "agentruns/finalizers", "update", ""}, "owns the Jobs and the requests of a run", owner, ""},
		{Right{ours, "toolservers/finalizers", "update", ""}, "owns the Jobs that look at a tool server", owner, ""},
		{Right{ours, "agentdefinitions/status", "patch", ""}, "says whether a definition compiled, and which revision is current", "", ""},
		{Right{ours, "agentpolicies/status", "patch", ""}, "says whether a policy is in force", "", ""},
		{Right{ours, "agentruns/status", "patch", ""}, "says how a run stands", "", ""},
		{Right{ours, "approvalrequests/status", "patch", ""}, "says how a request stands", "", ""},
		{Right{ours, "toolservers/status", "patch", ""}, "says which tools a server has", "", ""},
		{Right{ours, "agentruns", "get", ""}, "looks whether a run is gone before it ends it in Postgres", "", "where an object went away behind the manager"},
		{Right{ours, "agentruns", "patch", ""}, "puts its finalizer on a run, and takes it off", "", ""},
		{Right{ours, "agentruns", "delete", ""}, "deletes a run whose time to live is over", "", ""},
		{Right{ours, "approvalrequests", "create", ""}, "asks people, and tries whether the guard of decisions is in force", "", ""},
		{Right{ours, "approvalrequests", "get", ""}, "looks whether a request of the name is its own", "", crash},
		{Right{ours, "approvalrequests", "manage", ""}, "is who makes requests: the guard of decisions lets nobody else", "the policy ekiden-approval-decision", ""},
		{Right{ours, "definitionrevisions", "create", ""}, "makes a revision of a definition that compiled", "", ""},
		{Right{ours, "definitionrevisions", "delete", ""}, "prunes revisions that nothing uses", "", ""},
		{Right{ours, "definitionrevisions", "get", ""}, "looks whether a revision of the name has the content", "", crash},
		{Right{"events.k8s.io", "events", "create", ""}, "tells of each change of a reason", "", ""},
		{Right{"events.k8s.io", "events", "patch", ""}, "counts an Event that comes again", "", "when the same is told twice within minutes"},
		{Right{"", "events", "create", ""}, "tells of a change of leaders", "", ""},
	}
	for resource, why := range map[string]string{
		"agentdefinitions": "compiles definitions", "agentpolicies": "puts policies in force", "agentruns": "carries out runs",
		"approvalrequests": "takes up decisions", "definitionrevisions": "runs what a revision says", "modelendpoints": "compiles endpoints into revisions",
		"toolservers": "looks at tool servers",
	} {
		all = append(all, watching(ours, resource, why)...)
	}
	for _, resource := range []string{"mutatingadmissionpolicies", "mutatingadmissionpolicybindings", "validatingadmissionpolicies", "validatingadmissionpolicybindings"} {
		all = append(all, watching(admission, resource, "compares the policies that guard decisions with those of its version")...)
	}
	all = append(all, watching("batch", "jobs", "sees its Jobs end")...)
	all = append(all, watching("", "pods", "sees the containers of its Jobs end, and why one does not start")...)
	return append(all, watching("", "namespaces", "reads a namespace's uid, by which its login is named")...)
}

// watching are the two verbs of a cache.
func watching(group, resource, why string) []Purpose {
	return []Purpose{
		{Right{group, resource, "list", ""}, why, "", "where an API server does not begin a watch with what is there"},
		{Right{group, resource, "watch", ""}, why, "", ""},
	}
}
