// Package archive writes container images of one static binary, as archives that containerd, podman and Docker import.
//
// An archive is an OCI image layout with the list that `docker load` reads beside it. The same input gives the same bytes:
// nothing of when, where and by whom it was written gets in.
package archive

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
)

// Image is what is in an image.
type Image struct {
	// Name is the image's name with its tag, as it stands in a manifest.
	Name string
	// Architecture is that of the binary, in the words of Go.
	Architecture string
	// Files are the contents by absolute path. The one that is the entrypoint can be executed, all can be read.
	Files map[string][]byte
	// Entrypoint is the path of the binary.
	Entrypoint string
	// User is uid:gid.
	User   string
	Labels map[string]string
}

const (
	mediaIndex    = "application/vnd.oci.image.index.v1+json"
	mediaManifest = "application/vnd.oci.image.manifest.v1+json"
	mediaConfig   = "application/vnd.oci.image.config.v1+json"
	mediaLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    *platform         `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

type configuration struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
	Config       struct {
		User       string
		Env        []string
		Entrypoint []string
		WorkingDir string
		Labels     map[string]string `json:",omitempty"`
	} `json:"config"`
	RootFS struct {
		Type    string   `json:"type"`
		DiffIDs []string `json:"diff_ids"`
	} `json:"rootfs"`
	History []map[string]string `json:"history"`
}

type manifest struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Config        descriptor   `json:"config"`
	Layers        []descriptor `json:"layers"`
}

type index struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Manifests     []descriptor `json:"manifests"`
}

// loaded is an entry of manifest.json, which `docker load` reads.
type loaded struct {
	Config   string
	RepoTags []string
	Layers   []string
}

// Write writes the archive of an image.
func Write(w io.Writer, i Image) error {
	if _, tag, found := strings.Cut(path.Base(i.Name), ":"); !found || tag == "" {
		return fmt.Errorf("image %q has no tag", i.Name)
	}
	if i.Files[i.Entrypoint] == nil {
		return fmt.Errorf("image %s has no file %s", i.Name, i.Entrypoint)
	}
	plain, err := i.layer()
	if err != nil {
		return fmt.Errorf("writing the layer of %s: %w", i.Name, err)
	}
	layer, err := compressed(plain)
	if err != nil {
		return fmt.Errorf("compressing the layer of %s: %w", i.Name, err)
	}
	return i.layout(w, digest(plain), layer)
}

// layout writes the image around its layer.
func (i Image) layout(w io.Writer, diff string, layer []byte) error {
	blobs := map[string][]byte{}
	put := func(media string, content []byte) descriptor {
		d := descriptor{MediaType: media, Digest: digest(content), Size: len(content)}
		blobs[blob(d)] = content
		return d
	}
	m := manifest{SchemaVersion: 2, MediaType: mediaManifest}
	m.Layers = []descriptor{put(mediaLayer, layer)}
	m.Config = put(mediaConfig, encoded(i.configuration(diff)))
	top := put(mediaManifest, encoded(m))
	top.Platform = &platform{Architecture: i.Architecture, OS: "linux"}
	_, tag, _ := strings.Cut(path.Base(i.Name), ":")
	top.Annotations = map[string]string{"io.containerd.image.name": Full(i.Name), "org.opencontainers.image.ref.name": tag}

	blobs["oci-layout"] = []byte(`{"imageLayoutVersion":"1.0.0"}`)
	blobs["index.json"] = encoded(index{SchemaVersion: 2, MediaType: mediaIndex, Manifests: []descriptor{top}})
	blobs["manifest.json"] = encoded([]loaded{{Config: blob(m.Config), RepoTags: []string{i.Name}, Layers: []string{blob(m.Layers[0])}}})
	return tree(w, blobs, "")
}

func (i Image) configuration(diff string) configuration {
	c := configuration{Architecture: i.Architecture, OS: "linux"}
	c.Config.User, c.Config.Entrypoint, c.Config.Labels = i.User, []string{i.Entrypoint}, i.Labels
	c.Config.Env, c.Config.WorkingDir = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}, "/"
	c.RootFS.Type, c.RootFS.DiffIDs = "layers", []string{diff}
	c.History = []map[string]string{{"created_by": "hack/image"}}
	return c
}

// layer is the image's only one: its files, owned by root so that the image's user changes none.
func (i Image) layer() ([]byte, error) {
	files := map[string][]byte{}
	for name, content := range i.Files {
		if !path.IsAbs(name) || path.Clean(name) != name {
			return nil, fmt.Errorf("%q is not an absolute path", name)
		}
		files[strings.TrimPrefix(name, "/")] = content
	}
	var layer bytes.Buffer
	err := tree(&layer, files, strings.TrimPrefix(i.Entrypoint, "/"))
	return layer.Bytes(), err
}

// tree writes files and the folders above them, in the order of their names. It leaves out when and by whom.
func tree(w io.Writer, files map[string][]byte, executable string) error {
	archive := tar.NewWriter(w)
	made := map[string]bool{".": true}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := folders(archive, path.Dir(name), made); err != nil {
			return err
		}
		mode := int64(0o644)
		if name == executable {
			mode = 0o755
		}
		header := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(files[name])), Format: tar.FormatUSTAR}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		if _, err := archive.Write(files[name]); err != nil {
			return err
		}
	}
	return archive.Close()
}

func folders(archive *tar.Writer, folder string, made map[string]bool) error {
	if made[folder] {
		return nil
	}
	if err := folders(archive, path.Dir(folder), made); err != nil {
		return err
	}
	made[folder] = true
	return archive.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: folder + "/", Mode: 0o755, Format: tar.FormatUSTAR})
}

// compressed is as small as it gets in little time: a layer is written often and sent over no network.
func compressed(content []byte) ([]byte, error) {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(content); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// encoded is for our own types, all of which JSON can say.
func encoded(v any) []byte {
	content, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return content
}

func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func blob(d descriptor) string { return "blobs/" + strings.ReplaceAll(d.Digest, ":", "/") }

// Full is the name with the registry it leaves out, as containerd has it.
func Full(name string) string {
	first, _, found := strings.Cut(name, "/")
	switch {
	case !found:
		return "docker.io/library/" + name
	case first == "localhost" || strings.ContainsAny(first, ".:"):
		return name
	default:
		return "docker.io/" + name
	}
}
