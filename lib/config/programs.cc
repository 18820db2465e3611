#include "lib/config/programs.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <string_view>

#include "lib/base/fd.h"

namespace pen::config {
namespace {

// In every program that links this file, and in no other mail system's.
constexpr std::string_view kMark = "@(#) a program of the Penstock mail system";

}  // namespace

std::string programs_beside() {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path own = fs::read_symlink("/proc/self/exe", error).parent_path();
  if (error) return {};
  if (own.filename() == "penstock" && own.parent_path().filename() == "libexec") return own;
  const fs::path beside = own.parent_path() / "libexec" / "penstock";
  return fs::is_directory(beside, error) ? beside.string() : std::string();
}

bool holds_programs(const std::string& directory) {
  const std::string path = directory + "/master";
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat st{};
  if (!fd || ::fstat(fd.get(), &st) != 0 || !S_ISREG(st.st_mode) || st.st_size == 0) return false;
  const auto size = static_cast<std::size_t>(st.st_size);
  void* mapped = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (mapped == MAP_FAILED) return false;
  const bool found = ::memmem(mapped, size, kMark.data(), kMark.size()) != nullptr;
  ::munmap(mapped, size);
  return found;
}

}  // namespace pen::config
