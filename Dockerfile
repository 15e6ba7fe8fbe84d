# docs/image.md says how this is built, what is in it and how to check that.

ARG BUILDER_IMAGE=docker.io/library/rust:1.95.0-slim-trixie
ARG BASE_IMAGE=gcr.io/distroless/static-debian13:nonroot

# Runs on the machine that builds and compiles for TARGETARCH: Rust under emulation takes many times as long.
FROM --platform=$BUILDPLATFORM ${BUILDER_IMAGE} AS toolchain
ARG TARGETARCH
WORKDIR /build
# The C compiler is for ring, and links; libc6 and libgcc-s1 of the target are what the image will carry.
RUN set -eu; \
    case "$TARGETARCH" in \
        amd64) rust=x86_64-unknown-linux-gnu; gnu=x86_64-linux-gnu; package=gcc-x86-64-linux-gnu ;; \
        arm64) rust=aarch64-unknown-linux-gnu; gnu=aarch64-linux-gnu; package=gcc-aarch64-linux-gnu ;; \
        *) echo "zonewise's image is built for amd64 and arm64, not for '$TARGETARCH': see docs/image.md" >&2; exit 1 ;; \
    esac; \
    dpkg --add-architecture "$TARGETARCH"; \
    apt-get update; \
    apt-get install -y --no-install-recommends "libc6:$TARGETARCH" "libgcc-s1:$TARGETARCH"; \
    command -v "$gnu-gcc" || apt-get install -y --no-install-recommends "$package" "libc6-dev-$TARGETARCH-cross"; \
    rm -rf /var/lib/apt/lists/*; \
    [ -d "$(rustc --print target-libdir --target "$rust")" ] || rustup target add "$rust"; \
    mkdir .cargo; \
    printf '[build]\ntarget = "%s"\n[target.%s]\nlinker = "%s-gcc"\n' "$rust" "$rust" "$gnu" > .cargo/config.toml

# Every crate that zonewise uses, under an empty zonewise: made anew only when Cargo.toml or Cargo.lock change.
FROM toolchain AS dependencies
COPY Cargo.toml Cargo.lock ./
RUN set -eu; \
    mkdir src benches; \
    echo 'fn main() { println!("the-empty-zonewise"); }' > src/main.rs; \
    echo '//! Empty.' > src/lib.rs; \
    for bench in $(sed -n '/^\[\[bench\]\]/,/^$/s/^name = "\(.*\)"/\1/p' Cargo.toml); do \
        cp src/main.rs "benches/$bench.rs"; \
    done; \
    cargo build --release --locked

FROM dependencies AS build
ARG TARGETARCH
COPY src src
COPY examples examples
COPY LICENSE ./
# Touched, since sources older than the empty zonewise are, to cargo, sources that it has compiled.
RUN set -eu; \
    touch src/main.rs src/lib.rs; \
    cargo build --release --locked --bin zonewise; \
    if grep -q the-empty-zonewise target/*-linux-gnu/release/zonewise; then \
        echo 'cargo took the empty zonewise for the real one' >&2; exit 1; \
    fi
# The program, the shared libraries that it names, and what dpkg knows of those, so that scanners find them.
RUN set -eu; \
    zonewise=$(echo target/*-linux-gnu/release/zonewise); \
    interpreter=$(readelf --program-headers "$zonewise" | sed -n 's/.*interpreter: \(.*\)]/\1/p'); \
    libraries=$(dirname "$(readlink -f "/usr$interpreter")"); \
    install -D -t /image/usr/local/bin "$zonewise"; \
    install -D -m 644 -t /image/usr/share/doc/zonewise LICENSE; \
    for library in "$(basename "$interpreter")" \
            $(readelf --dynamic "$zonewise" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p'); do \
        install -D -t "/image$libraries" "$libraries/$library"; \
    done; \
    cp -P --parents "/usr$interpreter" /image; \
    mkdir -p /image/var/lib/dpkg/status.d; \
    for package in libc6 libgcc-s1; do \
        dpkg-query --status "$package:$TARGETARCH" > "/image/var/lib/dpkg/status.d/$package"; \
        install -D -m 644 -t "/image/usr/share/doc/$package" "/usr/share/doc/$package/copyright"; \
    done

FROM ${BASE_IMAGE}
COPY --from=build /image/ /
USER 65532:65532
WORKDIR /
EXPOSE 8443 8080
ENTRYPOINT ["/usr/local/bin/zonewise"]

ARG BASE_IMAGE
ARG VERSION=unknown
ARG REVISION=unknown
ARG SOURCE=unknown
ARG LICENSES=Apache-2.0
LABEL org.opencontainers.image.title="zonewise" \
      org.opencontainers.image.description="Admission webhook that keeps Kubernetes traffic in its zone without drowning any zone" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION" \
      org.opencontainers.image.source="$SOURCE" \
      org.opencontainers.image.licenses="$LICENSES" \
      org.opencontainers.image.base.name="$BASE_IMAGE"
