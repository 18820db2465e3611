#include "lib/base/metrics/page.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <new>

namespace pen::metrics {
namespace {

/// What stands before the slots.
struct Header {
  std::atomic<std::uint64_t> layout;  // 0: nobody has counted yet
  std::uint64_t reserved[7];
};
static_assert(sizeof(Header) + kSlots * sizeof(Slot) <= kPageBytes, "the table has outgrown the page");

/// The identity of the table: what the numbers of slots mean (FNV-1a).
constexpr std::uint64_t identity() {
  std::uint64_t h = 0xcbf29ce484222325U;
  const auto byte = [&h](unsigned char c) { h = (h ^ c) * 0x100000001b3U; };
  const auto text = [&](std::string_view s) {
    for (const char c : s) byte(static_cast<unsigned char>(c));
    byte(0);
  };
  for (const Family& f : kFamilies) {
    text(f.name);
    for (const LabelInfo& label : f.labels) {
      text(label.name);
      for (const std::string_view value : label.values) text(value);
    }
    for (const std::uint64_t bound : f.bounds)
      for (unsigned shift = 0; shift < 64; shift += 8) byte(static_cast<unsigned char>(bound >> shift));
    byte(1);
  }
  return h | 1U;
}
constexpr std::uint64_t kIdentity = identity();

Result<void> check_size(int fd) {
  struct stat facts{};
  if (::fstat(fd, &facts) != 0) return fail_errno("metrics page");
  if (facts.st_size != static_cast<off_t>(kPageBytes)) return fail(PageError::not_a_page);
  return {};
}

}  // namespace

Result<Fd> create_page(const std::string& name) {
  Fd fd(::memfd_create(("metrics " + name).substr(0, 200).c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return fail_errno("memfd_create");
  if (::fchmod(fd.get(), 0600) != 0 || ::ftruncate(fd.get(), kPageBytes) != 0 ||
      ::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return fail_errno("metrics page");
  return fd;
}

Result<Fd> reader_of(int page) {
  Fd fd(::open(fmt::format("/proc/self/fd/{}", page).c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return fail_errno("metrics page");
  return fd;
}

Result<void> adopt_page(const Fd& page) {
  PEN_TRY(check_size(page.get()));
  void* memory = ::mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, page.get(), 0);
  if (memory == MAP_FAILED) return fail_errno("metrics page");
  auto& header = *std::launder(static_cast<Header*>(memory));
  std::uint64_t found = 0;
  if (!header.layout.compare_exchange_strong(found, kIdentity) && found != kIdentity) {
    ::munmap(memory, kPageBytes);
    return fail(PageError::foreign_layout);
  }
  Slot* const before = detail::slots;
  detail::slots = std::launder(reinterpret_cast<Slot*>(static_cast<char*>(memory) + sizeof(Header)));
  for (std::size_t i = 0; i < kSlots; ++i) {
    if (const auto n = before[i].load(std::memory_order_relaxed)) detail::add(i, n);
  }
  return {};
}

Result<Reader> Reader::open(const Fd& page) {
  PEN_TRY(check_size(page.get()));
  void* memory = ::mmap(nullptr, kPageBytes, PROT_READ, MAP_SHARED, page.get(), 0);
  if (memory == MAP_FAILED) return fail_errno("metrics page");
  return Reader(memory);
}

Reader::~Reader() {
  if (memory_ != nullptr) ::munmap(const_cast<void*>(memory_), kPageBytes);
}

Result<void> Reader::add_to(Sums& sums) const {
  const auto& header = *std::launder(static_cast<const Header*>(memory_));
  const std::uint64_t layout = header.layout.load();
  if (layout == 0) return {};
  if (layout != kIdentity) return fail(PageError::foreign_layout);
  const auto* slots = std::launder(reinterpret_cast<const Slot*>(static_cast<const char*>(memory_) + sizeof(Header)));
  for (std::size_t i = 0; i < kSlots; ++i) sums[i] += slots[i].load(std::memory_order_relaxed);
  return {};
}

}  // namespace pen::metrics
