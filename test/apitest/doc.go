// Package apitest gives tests a real API server.
//
// A test binary has one, started by the first test that asks for it and stopped when the tests are over:
//
//	func TestMain(m *testing.M) { os.Exit(apitest.Main(m)) }
//
//	func TestSomething(t *testing.T) {
//		server := apitest.Start(t)
//		server.Install(t)
//		admin, dana := server.Client(t), server.As(t, "dana", "support")
//		...
//	}
//
// The server is the control plane of the development cluster, without a node and without Postgres: pods stay
// Pending. It belongs to the test binary and dies with it, however that ends.
package apitest
