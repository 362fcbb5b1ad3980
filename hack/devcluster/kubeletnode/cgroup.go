package kubeletnode

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// hierarchies are the mounts of control groups: one for each controller, or a single one.
const hierarchies = "/sys/fs/cgroup"

// Cgroup is the group below which the kubelet makes those of its pods. It is not the root: another kubelet of this
// machine would end our pods, and we those of the other.
func (c Config) Cgroup() string { return "/devcluster-" + c.tag() }

func roots() []string {
	if _, err := os.Stat(filepath.Join(hierarchies, "cgroup.controllers")); err == nil {
		return []string{hierarchies}
	}
	folders, _ := filepath.Glob(hierarchies + "/*/cgroup.procs")
	for i := range folders {
		folders[i] = filepath.Dir(folders[i])
	}
	return folders
}

func makeCgroup(group string) error {
	for _, root := range roots() {
		if err := delegate(root); err != nil {
			return err
		}
		if err := os.MkdirAll(root+group, 0o755); err != nil {
			return err
		}
	}
	return nil
}

// wanted are the controllers that a kubelet asks for in its group, as far as the machine has them.
var wanted = []string{"cpu", "cpuset", "memory", "hugetlb", "pids"}

// delegate has the groups below a single hierarchy have the controllers that the root has. Of several hierarchies each has its own.
// It fails where the root has processes, as in a container.
func delegate(root string) error {
	offered, err := os.ReadFile(filepath.Join(root, "cgroup.controllers"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, controller := range strings.Fields(string(offered)) {
		if !slices.Contains(wanted, controller) {
			continue
		}
		if err := os.WriteFile(filepath.Join(root, "cgroup.subtree_control"), []byte("+"+controller), 0o600); err != nil {
			return fmt.Errorf("giving the controller %s to groups below %s: %w", controller, root, err)
		}
	}
	return nil
}

// removePatience is for processes that the kernel is still taking apart.
const removePatience = 5 * time.Second

// RemoveCgroup removes the group and all below it, once its processes are gone.
func (c Config) RemoveCgroup() error { return removeCgroup(c.Cgroup()) }

func removeCgroup(group string) error {
	var problems error
	deadline := time.Now().Add(removePatience)
	for _, root := range roots() {
		for {
			err := removeTree(root + group)
			if err == nil {
				break
			}
			if time.Now().After(deadline) {
				problems = errors.Join(problems, err)
				break
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
	return problems
}

// removeTree removes folders from the leaves up; the files in them are the kernel's.
func removeTree(top string) error {
	var folders []string
	err := filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			folders = append(folders, path)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, folder := range slices.Backward(folders) {
		if err := os.Remove(folder); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
