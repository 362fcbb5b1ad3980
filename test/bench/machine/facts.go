package machine

import (
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// Facts are what a number is worth nothing without.
type Facts struct {
	At       time.Time         `json:"at"`
	CPUs     int               `json:"cpus"`
	Load     string            `json:"loadAverage"`
	Go       string            `json:"go"`
	OS       string            `json:"os"`
	Postgres string            `json:"postgres"`
	Settings map[string]string `json:"settings"`
	// Versions are those of the peers, by module.
	Versions map[string]string `json:"versions"`
}

// Facts are those of this moment.
func (p *Postgres) Facts() Facts {
	return Facts{
		At: time.Now().UTC().Truncate(time.Second), CPUs: runtime.NumCPU(), Load: Load(), Go: runtime.Version(), OS: runtime.GOOS + "/" + runtime.GOARCH,
		Postgres: p.Version, Settings: p.Settings, Versions: versions(),
	}
}

// Peers are the modules whose versions are told.
var Peers = []string{
	"github.com/dbos-inc/dbos-transact-golang", "github.com/riverqueue/river", "github.com/riverqueue/river/riverdriver/riverpgxv5", "github.com/jackc/pgx/v5",
}

func versions() map[string]string {
	out := map[string]string{}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return out
	}
	for _, d := range info.Deps {
		for _, name := range Peers {
			if d.Path == name {
				out[name] = d.Version
			}
		}
	}
	return out
}

// Load is how busy the machine is with everybody's work: the averages over 1, 5 and 15 minutes, where the kernel tells.
func Load() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(b))[:3], " ")
}
