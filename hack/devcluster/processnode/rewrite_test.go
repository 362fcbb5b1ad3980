package processnode

import "testing"

func TestRewrite(t *testing.T) {
	t.Parallel()
	paths := newRewriter([]replacement{
		{"/etc/app", "/pod/volumes/config"},
		{"/etc/app/tls", "/pod/volumes/tls"},
		{"/tmp", "/pod/volumes/tmp"},
		{"/dev/termination-log", "/pod/message"},
	})
	tests := map[string]struct{ given, want string }{
		"a path that is the mount itself is replaced":             {"/etc/app", "/pod/volumes/config"},
		"a path below the mount keeps its rest":                   {"/etc/app/a/b.yaml", "/pod/volumes/config/a/b.yaml"},
		"a slash at the end stays":                                {"/etc/app/", "/pod/volumes/config/"},
		"of two mounts the one further in wins":                   {"/etc/app/tls/ca.crt", "/pod/volumes/tls/ca.crt"},
		"a name that only begins like the mount is another path":  {"/etc/application", "/etc/application"},
		"a name with an extension is another path":                {"/etc/app.d/x", "/etc/app.d/x"},
		"a flag's value is replaced":                              {"--config=/etc/app/c", "--config=/pod/volumes/config/c"},
		"every path in a list is replaced":                        {"/etc/app:/tmp", "/pod/volumes/config:/pod/volumes/tmp"},
		"a script's words are replaced":                           {"cat /etc/app/x >/dev/termination-log; ls '/tmp'", "cat /pod/volumes/config/x >/pod/message; ls '/pod/volumes/tmp'"},
		"a path inside another path is left alone":                {"/root/etc/app", "/root/etc/app"},
		"a path after a variable is left alone":                   {"${ROOT}/tmp $(pwd)/tmp", "${ROOT}/tmp $(pwd)/tmp"},
		"the path of a URL is left alone":                         {"https://host/tmp/x", "https://host/tmp/x"},
		"the path of a file URL is replaced":                      {"file:///tmp/x", "file:///pod/volumes/tmp/x"},
		"what was put in is not looked at again":                  {"/tmp/tmp", "/pod/volumes/tmp/tmp"},
		"a relative path is left alone":                           {"etc/app ./tmp", "etc/app ./tmp"},
		"text without paths stays":                                {"hello, world", "hello, world"},
		"no text stays no text":                                   {"", ""},
		"quotes and brackets around a path do not hide it":        {`{"dir":"/tmp","n":1}`, `{"dir":"/pod/volumes/tmp","n":1}`},
		"letters that are not ASCII can be part of a longer name": {"/tmpé/x", "/tmpé/x"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := paths.rewrite(test.given); got != test.want {
				t.Errorf("rewrite(%q) = %q, want %q", test.given, got, test.want)
			}
		})
	}
}
