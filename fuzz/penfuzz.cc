// All fuzz targets in one program: penfuzz TARGET [option of libFuzzer | corpus]…
// Each x_fuzz.cc defines LLVMFuzzerTestOneInput; the build gives it a name of its own (pen_fuzz() in
// cmake/penstock.cmake), and this file calls the one that is named.
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace {

using Target = int (*)(const unsigned char*, std::size_t);

struct Row {
  std::string_view name;
  Target run;
};

}  // namespace

#define PEN_FUZZ_TARGET(name) extern "C" int pen_fuzz_##name(const unsigned char* data, std::size_t size);
#include "fuzz/targets.def"
#undef PEN_FUZZ_TARGET

namespace {

constexpr Row kTargets[] = {
#define PEN_FUZZ_TARGET(name) {#name, pen_fuzz_##name},
#include "fuzz/targets.def"
#undef PEN_FUZZ_TARGET
};

Target chosen = nullptr;

}  // namespace

// Takes the target's name out of the arguments; what is left is libFuzzer's.
extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  const std::string_view name = *argc > 1 ? (*argv)[1] : "";
  for (const Row& row : kTargets)
    if (row.name == name) chosen = row.run;
  if (chosen == nullptr) {
    std::fputs("penfuzz TARGET [OPTION | CORPUS]…: no such target. There are:\n", stderr);
    for (const Row& row : kTargets) std::fprintf(stderr, "  %s\n", row.name.data());
    std::exit(64);
  }
  (*argv)[1] = (*argv)[0];
  ++*argv;
  --*argc;
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) { return chosen(data, size); }
