# One image per role:
#
#   docker build --target manager -t ekiden-manager .
#   docker build --target segment -t ekiden-segment .
#
# Each holds one static binary and the certificates of public authorities: no shell, no libc, no package manager, no root.

FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY main.go ./
COPY api api
COPY controllers controllers
COPY runtime runtime
# Embedded in the manager, which honours no approval where it is not in force.
COPY config/admission config/admission
ARG VERSION=dev
ENV CGO_ENABLED=0 GOFLAGS=-buildvcs=false
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    go build -trimpath -ldflags "-s -w -X main.version=${VERSION}" -o /out/manager . && \
    go build -trimpath -ldflags "-s -w -X main.version=${VERSION}" -o /out/segment ./runtime/cmd/segment

# hack/image writes the same images without Docker, and its tests compare the two.
FROM scratch AS base
ARG VERSION=dev
ARG REVISION
LABEL org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.source="https://github.com/ekiden-dev/ekiden"
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
USER 65532:65532

FROM base AS segment
LABEL org.opencontainers.image.title="ekiden-segment" \
      org.opencontainers.image.description="A segment of an agent's run by Ekiden."
COPY --from=build /out/segment /segment
ENTRYPOINT ["/segment"]

FROM base AS manager
LABEL org.opencontainers.image.title="ekiden-manager" \
      org.opencontainers.image.description="The manager of Ekiden, which runs LLM agents durably on Kubernetes."
COPY --from=build /out/manager /manager
ENTRYPOINT ["/manager"]
