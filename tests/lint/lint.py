"""Checks of the source tree that no compiler makes: lint.py [CHECK…], all of them by default.

format   clang-format 14 would change nothing
length   no source file has more than 500 lines, no program of examples/*.cpp more than 80
layers   who may include what
words    what is computed is unknown below compiler/rewrite
paths    no file speaks of the machine or the way it was made
mentions a document that a file names is in the tree

Prints one line for each finding, exits with 1 if there is any and with 77 if a check could not run.
"""

import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
MAX_LINES = 500
MAX_EXAMPLE_LINES = 80
CODE = {".h", ".c", ".cpp", ".cuh", ".cu"}
SKIPPED = 77


def tracked_files():
    """The files of the tree, those not yet added included, below ROOT."""
    listing = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT,
                             capture_output=True, text=True, check=True).stdout
    return [path for path in map(pathlib.PurePosixPath, listing.split("\0")) if path.name and (ROOT / path).is_file()]


def code_files():
    return [path for path in tracked_files() if path.suffix in CODE]


def text_lines(path):
    """The lines of a file, none for a binary file."""
    data = (ROOT / path).read_bytes()
    return [] if b"\0" in data else data.decode("utf-8", "replace").splitlines()


def without_comments(text):
    """The text with comments blanked, line numbers kept. Strings stay: what they name is code."""
    pattern = re.compile(r'//[^\n]*|/\*.*?\*/|("(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\')', re.DOTALL)
    return pattern.sub(lambda found: found[1] or re.sub(r"[^\n]", " ", found[0]), text)


def check_format():
    program = shutil.which("clang-format-14") or shutil.which("clang-format")
    version = subprocess.run([program, "--version"], capture_output=True, text=True).stdout if program else "none"
    if "version 14." not in version:
        print(f"skipped: clang-format 14 is needed, found {version.strip()}")
        sys.exit(SKIPPED)
    files = [str(path) for path in code_files() if path.suffix in {".h", ".cpp", ".cuh"}]
    if not files:
        return
    result = subprocess.run([program, "--dry-run", "-Werror", *files], cwd=ROOT, capture_output=True, text=True)
    if result.returncode != 0:
        findings = re.findall(r"^(.+?):(\d+):\d+: error: code should be", result.stderr, re.MULTILINE)
        if not findings:
            yield result.stderr
        # The first place of each file is enough: `./dev format` mends them all.
        for path, line in dict(reversed(findings)).items():
            yield f"{path}:{line}: clang-format would change this"


def check_length():
    for path in tracked_files():
        if path.suffix in CODE | {".py", ".cmake"} or path.name in {"CMakeLists.txt", "dev"}:
            count = len(text_lines(path))
            most = MAX_EXAMPLE_LINES if str(path.parent) == "examples" and path.suffix == ".cpp" else MAX_LINES
            if count > most:
                yield f"{path}:{most}: {count} lines, {most} allowed"


def may_include(path, included):
    """None when the file may include that, else the rule that it breaks."""
    top = path.parts[0]
    is_llvm_user = path.match("compiler/cpu/*") or path.match("runtime/orc*") or top == "tests"
    if top == "compiler" and included.startswith(("runtime/", "api/", "tools/")):
        return "compiler/ knows neither the runtime nor what is above it"
    if top == "runtime" and included.startswith(("compiler/", "api/", "tools/")):
        if not included.startswith("compiler/support/"):
            return "runtime/ knows no tiles: of the compiler only compiler/support/"
    if top == "api" and included.startswith("tools/"):
        return "the library does not know its program"
    if included.startswith(("llvm/", "llvm-c/")) and not is_llvm_user:
        return "LLVM headers only in compiler/cpu/ and runtime/orc*"
    if path.suffix == ".h" and included.startswith(("fmt/", "yaml-cpp/", "CLI/", "nlohmann/")):
        if top != "tests":
            return "fmt, yaml-cpp, CLI11 and nlohmann stay out of headers: they are slow to compile"
    if included.startswith((".", "cuda.h", "cuda_runtime", "nvrtc.h")) and top not in {"tests"}:
        return "includes are relative to the root, and no CUDA header is needed"
    return None


def check_layers():
    for path in code_files():
        for number, line in enumerate(text_lines(path), 1):
            found = re.match(r'\s*#\s*include\s*[<"]([^>"]+)[>"]', line)
            rule = found and may_include(path, found[1])
            if rule:
                yield f"{path}:{number}: includes {found[1]}: {rule}"


def check_words():
    forbidden = re.compile(r"softmax|causal|attention|gqa", re.IGNORECASE)
    layers = ("compiler/passes/", "compiler/tile/", "compiler/cuda/", "compiler/cpu/")
    for path in code_files():
        if not str(path).startswith(layers):
            continue
        code = without_comments("\n".join(text_lines(path)))
        for number, line in enumerate(code.splitlines(), 1):
            found = forbidden.search(line)
            if found:
                yield f"{path}:{number}: '{found[0]}' names what is computed, below compiler/rewrite/"


def check_paths():
    # A class of one letter keeps each pattern from matching its own text.
    forbidden = re.compile(
        r"/wor[k]/|/roo[t]/|/hom[e]/\w|\bCE[O]\b|\bISSU[E]\d|\bBRIE[F]\.md|\bclaud[e]\b|\banthropi[c]\b|"
        r"\b(?:this|previous|earlier|last|next|another|other) sessio[n]s?\b|\bshared/(?:DESIG|STYL|REWRIT|TILE_I|HOPPE|case)",
        re.IGNORECASE)
    for path in tracked_files():
        for number, line in enumerate(text_lines(path), 1):
            found = forbidden.search(line)
            if found:
                yield f"{path}:{number}: '{found[0]}' speaks of a machine or of how the file was made"


def check_mentions():
    files = tracked_files()
    known = {path.name for path in files}
    for path in files:
        for number, line in enumerate(text_lines(path), 1):
            for name in re.findall(r"\b[A-Z][A-Z_]+\.md\b", line):
                if name not in known:
                    yield f"{path}:{number}: names {name}, which is not in the tree"


CHECKS = {"format": check_format, "length": check_length, "layers": check_layers, "words": check_words,
          "paths": check_paths, "mentions": check_mentions}


def main():
    names = sys.argv[1:] or list(CHECKS)
    unknown = [name for name in names if name not in CHECKS]
    if unknown:
        sys.exit(f"no check named {', '.join(unknown)}; there are {', '.join(CHECKS)}")
    findings = [finding for name in names for finding in CHECKS[name]()]
    print(*findings, sep="\n")
    sys.exit(1 if findings else 0)


if __name__ == "__main__":
    main()
