package contract

import "time"

// Where a segment's pod finds what it needs. The manager mounts, the segment reads.
const (
	// SegmentContainer is the name of the container that runs the segment.
	SegmentContainer = "segment"

	// PostgresSecret is the name of the Secret that the manager makes in each namespace, PostgresKey its only key: a DSN.
	PostgresSecret = "ekiden-postgres"
	PostgresKey    = "dsn"

	// PostgresDir and CredentialDir are mount paths. CredentialFile is the name of the model key below CredentialDir.
	PostgresDir    = "/var/run/ekiden/postgres"
	CredentialDir  = "/var/run/ekiden/model"
	CredentialFile = "key"

	// ToolDir is where the keys of tool servers are mounted: a directory per server, and CredentialFile in it.
	ToolDir = "/var/run/ekiden/tools"

	// CADir is where certificates are mounted that are trusted besides those of the image, in the files that ModelCA and ToolCA name.
	CADir = "/var/run/ekiden/ca"
	// ModelCA is the file of the model endpoint's.
	ModelCA = "model/ca.crt"

	// TerminationLog is where a fault is written.
	TerminationLog = "/dev/termination-log"
)

// ToolCA is the file of a tool server's certificates.
func ToolCA(server string) string { return "tools/" + server + "/ca.crt" }

const (
	// LeaseTTL is how long a claim stands after its last beat, in Postgres time.
	LeaseTTL = 30 * time.Second
	// LeasePatience is how long after the end of its lease a process counts as silent: a beat may be under way.
	LeasePatience = 5 * time.Second
	// BeatEvery is how often a segment renews its claim when nothing else does.
	BeatEvery = 10 * time.Second
	// SaveTime is what a segment that is told to stop keeps for saving.
	SaveTime = 10 * time.Second
	// StopGrace is how long a pod has between SIGTERM and SIGKILL.
	StopGrace = 30 * time.Second
)

// Sizes that are promised.
const (
	// MaxInlineInput is the most bytes of an input in the object itself, MaxInput of one from elsewhere.
	MaxInlineInput = 32 << 10
	MaxInput       = 1 << 20
	// MaxInlineResult is the most bytes of a result shown in the status.
	MaxInlineResult = 4 << 10
	// MaxShownArguments is the most bytes of arguments that are put before an approver. Nobody is asked about larger ones.
	MaxShownArguments = 8 << 10
	// MaxMessage is the most bytes of a message in status, outcome or fault.
	MaxMessage = 1 << 10
)
