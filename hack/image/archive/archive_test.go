package archive

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func given(change ...func(*Image)) Image {
	i := Image{
		Name: "example/app:dev", Architecture: "amd64", User: "65532:65532", Entrypoint: "/app",
		Files:  map[string][]byte{"/app": []byte("program"), "/etc/ssl/certs/ca.crt": []byte("certificates")},
		Labels: map[string]string{"org.opencontainers.image.title": "app", "org.opencontainers.image.version": "dev"},
	}
	for _, c := range change {
		c(&i)
	}
	return i
}

func written(t *testing.T, i Image) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := Write(&out, i); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// entry is a file of an archive.
type entry struct {
	Mode          int64
	Content       string
	owned, signed bool
}

func unpacked(t *testing.T, r io.Reader) map[string]entry {
	t.Helper()
	files := map[string]entry{}
	for archive := tar.NewReader(r); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		files[header.Name] = entry{Mode: header.Mode, Content: string(content), owned: header.Uid != 0 || header.Gid != 0, signed: header.Uname != "" || !header.ModTime.IsZero() && header.ModTime.Unix() != 0}
	}
}

func TestTheSameInputGivesTheSameBytes(t *testing.T) {
	t.Parallel()
	first := written(t, given())
	for range 20 { // maps have no order
		if !bytes.Equal(first, written(t, given())) {
			t.Fatal("two archives of one image differ")
		}
	}
	for name, change := range map[string]func(*Image){
		"a file":    func(i *Image) { i.Files["/app"] = []byte("programme") },
		"a label":   func(i *Image) { i.Labels["org.opencontainers.image.version"] = "v1" },
		"the user":  func(i *Image) { i.User = "0:0" },
		"the name":  func(i *Image) { i.Name = "example/app:v1" },
		"what runs": func(i *Image) { i.Entrypoint = "/etc/ssl/certs/ca.crt" },
	} {
		if bytes.Equal(first, written(t, given(change))) {
			t.Errorf("%s makes no difference", name)
		}
	}
}

// TestAnArchiveIsWhole follows each digest from the index to the files, as whoever imports it does.
func TestAnArchiveIsWhole(t *testing.T) {
	t.Parallel()
	archive := unpacked(t, bytes.NewReader(written(t, given())))
	read := func(d descriptor, into any) []byte {
		t.Helper()
		content := []byte(archive[blob(d)].Content)
		if digest(content) != d.Digest || len(content) != d.Size {
			t.Fatalf("blob %s has %d bytes and digest %s, want %d", d.Digest, len(content), digest(content), d.Size)
		}
		if into != nil {
			if err := json.Unmarshal(content, into); err != nil {
				t.Fatal(err)
			}
		}
		return content
	}
	var top index
	if err := json.Unmarshal([]byte(archive["index.json"].Content), &top); err != nil || len(top.Manifests) != 1 {
		t.Fatalf("index.json: %+v, %v", top, err)
	}
	named := map[string]string{"io.containerd.image.name": "docker.io/example/app:dev", "org.opencontainers.image.ref.name": "dev"}
	if diff := cmp.Diff(named, top.Manifests[0].Annotations); diff != "" {
		t.Error(diff)
	}
	if p := top.Manifests[0].Platform; p == nil || *p != (platform{Architecture: "amd64", OS: "linux"}) {
		t.Errorf("platform %+v", p)
	}
	var m manifest
	read(top.Manifests[0], &m)
	var c configuration
	read(m.Config, &c)
	if c.Config.User != "65532:65532" || cmp.Diff([]string{"/app"}, c.Config.Entrypoint) != "" || cmp.Diff(given().Labels, c.Config.Labels) != "" || c.Architecture != "amd64" {
		t.Errorf("configuration %+v", c)
	}
	if len(m.Layers) != 1 || len(c.RootFS.DiffIDs) != 1 {
		t.Fatalf("%d layers, %d of them in the configuration", len(m.Layers), len(c.RootFS.DiffIDs))
	}
	unzipped, err := gzip.NewReader(bytes.NewReader(read(m.Layers[0], nil)))
	if err != nil {
		t.Fatal(err)
	}
	layer, err := io.ReadAll(unzipped)
	if err != nil || digest(layer) != c.RootFS.DiffIDs[0] {
		t.Errorf("the layer is %s, want %s: %v", digest(layer), c.RootFS.DiffIDs[0], err)
	}
	want := map[string]entry{
		"app": {Mode: 0o755, Content: "program"}, "etc/ssl/certs/ca.crt": {Mode: 0o644, Content: "certificates"},
		"etc/": {Mode: 0o755}, "etc/ssl/": {Mode: 0o755}, "etc/ssl/certs/": {Mode: 0o755},
	}
	if diff := cmp.Diff(want, unpacked(t, bytes.NewReader(layer)), cmp.AllowUnexported(entry{})); diff != "" {
		t.Error(diff)
	}
	var list []loaded
	if err := json.Unmarshal([]byte(archive["manifest.json"].Content), &list); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]loaded{{Config: blob(m.Config), RepoTags: []string{"example/app:dev"}, Layers: []string{blob(m.Layers[0])}}}, list); diff != "" {
		t.Error(diff)
	}
}

func TestWhatIsNoImageIsRefused(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Image){
		"without a tag":                          func(i *Image) { i.Name = "example.org:5000/app" },
		"whose program is not in it":             func(i *Image) { i.Entrypoint = "/other" },
		"with a file whose path leads elsewhere": func(i *Image) { i.Files["/../etc/passwd"] = []byte("x") },
		"with a file without a folder":           func(i *Image) { i.Files["app2"] = []byte("x") },
	} {
		if err := Write(io.Discard, given(change)); err == nil {
			t.Errorf("an image %s is written", name)
		}
	}
}

func TestFull(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"app:dev":             "docker.io/library/app:dev",
		"ekiden/app:dev":      "docker.io/ekiden/app:dev",
		"localhost/app:dev":   "localhost/app:dev",
		"ghcr.io/e/app:dev":   "ghcr.io/e/app:dev",
		"registry:5000/a:dev": "registry:5000/a:dev",
	} {
		if got := Full(name); got != want {
			t.Errorf("Full(%s) = %s, want %s", name, got, want)
		}
	}
}
