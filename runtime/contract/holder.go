package contract

import "fmt"

// Holder names the process that holds a claim. The manager gives a claim back by the second part, when it saw that pod end. No name of a
// pod holds a slash.
func Holder(pod, podUID string, pid int) string { return fmt.Sprintf("%s/%s/%d", pod, podUID, pid) }
