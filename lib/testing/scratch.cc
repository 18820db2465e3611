#include "lib/testing/scratch.h"

#include <unistd.h>

#include <cstdlib>

#include <fstream>

#include "lib/base/check.h"

namespace pen::testing {

ScratchDir::ScratchDir() {
  std::string name = (std::filesystem::temp_directory_path() / "penstock-test-XXXXXX").string();
  PEN_CHECK(::mkdtemp(name.data()) != nullptr);
  path_ = name;
}

ScratchDir::~ScratchDir() {
  std::error_code ignored;  // a test that made its directory unreadable leaves it behind
  std::filesystem::remove_all(path_, ignored);
}

std::string ScratchDir::write(std::string_view name, std::string_view content) const {
  const auto path = path_ / name;
  std::filesystem::create_directories(path.parent_path());
  std::ofstream out(path, std::ios::binary);
  out << content;
  out.close();
  PEN_CHECK(out.good());
  return path.string();
}

}  // namespace pen::testing
