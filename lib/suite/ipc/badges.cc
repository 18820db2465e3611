#include "lib/suite/ipc/badges.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

namespace pen::ipc {
namespace {

// Some hundred bytes for each service of master.cf.
constexpr off_t kMost = off_t{16} << 20;

Badges own;

bool same(std::string_view a, std::string_view b) {
  if (a.size() != kBadgeSize || b.size() != kBadgeSize) return false;
  unsigned different = 0;
  for (std::size_t i = 0; i < kBadgeSize; ++i) different |= static_cast<unsigned>(a[i] ^ b[i]);
  return different == 0;
}

}  // namespace

std::string_view Badges::for_socket(std::string_view path) const {
  const auto at = std::ranges::find(worn, path, &Worn::socket);
  return at == worn.end() ? std::string_view() : std::string_view(at->badge);
}

bool Badges::shows(std::string_view whose, std::string_view badge) const {
  const auto at = std::ranges::find(known, whose, &Known::program);
  return at != known.end() && same(at->badge, badge);
}

void wear(Badges badges) { own = std::move(badges); }
const Badges& badges() { return own; }

Result<Fd> to_memory(const Badges& badges) {
  Fd fd(::memfd_create("badges", MFD_CLOEXEC));
  if (!fd) return fail_errno("memfd_create");
  const std::string bytes = encode(badges);
  if (::write(fd.get(), bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) return fail_errno("badges");
  return fd;
}

Result<Badges> from_memory(int fd) {
  struct stat st{};
  if (::fstat(fd, &st) != 0) return fail_errno("badges");
  std::string bytes(static_cast<std::size_t>(std::min(st.st_size, kMost)), '\0');
  if (::pread(fd, bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) return fail_errno("badges");
  auto read = decode<Badges>(bytes);
  if (!read) return fail_errno("badges", EBADMSG);
  return *std::move(read);
}

}  // namespace pen::ipc
