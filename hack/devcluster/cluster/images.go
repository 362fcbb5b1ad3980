package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
)

// Images maps the name of an image to the absolute path of the binary it stands for.
type Images map[string]string

// ParseImages reads NAME=BINARY pairs. An image name never holds "=", a path may.
func ParseImages(pairs []string) (Images, error) {
	images := Images{}
	for _, pair := range pairs {
		name, binary, found := strings.Cut(pair, "=")
		if !found || name == "" || binary == "" {
			return nil, fmt.Errorf("image %q is not of the form NAME=BINARY", pair)
		}
		absolute, err := filepath.Abs(binary)
		if err != nil {
			return nil, fmt.Errorf("image %s: %w", name, err)
		}
		if _, err := os.Stat(absolute); err != nil {
			return nil, fmt.Errorf("image %s: %w", name, err)
		}
		images[name] = absolute
	}
	return images, nil
}

// ReadImages returns the images of the file; a file that is not there holds none.
func ReadImages(path string) (Images, error) {
	images := Images{}
	err := readJSON(path, &images)
	if errors.Is(err, fs.ErrNotExist) {
		return images, nil
	}
	return images, err
}

// AddImages merges images into those the file already holds.
func (d Dir) AddImages(images Images) error {
	known, err := ReadImages(d.Images())
	if err != nil {
		return err
	}
	maps.Copy(known, images)
	return writeJSON(d.Images(), known)
}
