#include "lib/base/lmdb/pages.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

namespace pen::lmdb {

std::string_view error_module(PageDamage) { return "lmdb"; }
std::string_view describe(PageDamage d) {
  switch (d) {
    case PageDamage::not_lmdb:
      return "not an LMDB file";
    case PageDamage::too_short:
      return "file is shorter than its content";
    case PageDamage::bad_page:
      return "damaged page";
  }
  return "unknown";
}

namespace {

using PageNumber = std::uint64_t;

constexpr std::uint32_t kMagic = 0xBEEFC0DE;
constexpr std::uint32_t kVersion = 1;
constexpr PageNumber kNone = ~PageNumber{0};  // the root of an empty tree
constexpr unsigned kMaxDepth = 32;            // as in liblmdb's cursors

// Page header: number 8, pad 2, flags 2, lower 2 and upper 2 (overflow: pages 4).
constexpr std::size_t kHeader = 16;
constexpr std::uint16_t kBranch = 0x01, kLeaf = 0x02, kOverflow = 0x04, kMeta = 0x08;
constexpr std::uint16_t kDirty = 0x10;  // left behind by a write that bypasses the mapping

// Node: size (or a child's page number) in low 2 and high 2 bytes; flags 2; key size 2; key; data.
constexpr std::size_t kNode = 8;
constexpr std::uint16_t kBigData = 0x01;  // the data is the number of an overflow page

struct Tree {
  std::uint32_t pad;
  std::uint16_t flags, depth;
  std::uint64_t branch_pages, leaf_pages, overflow_pages, entries;
  PageNumber root;
};
struct Meta {
  std::uint32_t magic, version;
  std::uint64_t address, map_size;
  Tree free, main;
  PageNumber last_page;
  std::uint64_t transaction;
};
static_assert(sizeof(Tree) == 48 && sizeof(Meta) == 136);
// The tree of free pages has integer keys, and its flags include the environment's: here "no directory".
constexpr std::uint16_t kFreeTreeFlags = 0x4008;

template <class T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

class Checker {
 public:
  explicit Checker(int fd) : fd_(fd) {}

  Result<void> run() {
    struct stat st{};
    if (::fstat(fd_, &st) != 0) return fail_errno("look at the file");
    size_ = static_cast<std::uint64_t>(st.st_size);
    if (!S_ISREG(st.st_mode) || size_ == 0) return fail(PageDamage::not_lmdb, "empty");
    PEN_TRY(read_metas());
    if (meta_.last_page >= size_ / page_size_) {
      return fail(PageDamage::too_short,
                  fmt::format("{} bytes instead of {} pages of {} bytes", size_, meta_.last_page + 1, page_size_));
    }
    seen_.assign(meta_.last_page + 1, false);
    seen_[0] = seen_[1] = true;
    page_.resize(page_size_);
    PEN_TRY(walk(meta_.main, false));
    return walk(meta_.free, true);
  }

 private:
  static std::unexpected<Error> bad(PageNumber page, std::string_view what) {
    return fail(PageDamage::bad_page, fmt::format("page {}: {}", page, what));
  }

  Result<void> read_at(std::uint64_t offset, std::byte* to, std::size_t size) {
    while (size != 0) {
      const ssize_t n = ::pread(fd_, to, size, static_cast<off_t>(offset));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return fail_errno("read");
      if (n == 0) return fail(PageDamage::too_short, fmt::format("it ends at byte {}", offset));
      to += n;
      size -= static_cast<std::size_t>(n);
      offset += static_cast<std::uint64_t>(n);
    }
    return {};
  }

  Result<Meta> read_meta(PageNumber number, std::uint64_t offset) {
    std::array<std::byte, kHeader + sizeof(Meta)> raw;
    PEN_TRY(read_at(offset, raw.data(), raw.size()));
    const auto meta = load<Meta>(raw.data() + kHeader);
    if ((load<std::uint16_t>(raw.data() + 10) & kMeta) == 0 || meta.magic != kMagic)
      return fail(PageDamage::not_lmdb, fmt::format("page {} is not a meta page", number));
    if (meta.version != kVersion) return fail(PageDamage::not_lmdb, fmt::format("data version {}", meta.version));
    return meta;
  }

  Result<void> read_metas() {
    PEN_TRY_ASSIGN(meta_, read_meta(0, 0));
    page_size_ = meta_.free.pad;
    if (page_size_ < 512 || page_size_ > 65536 || (page_size_ & (page_size_ - 1)) != 0)
      return bad(0, fmt::format("page size {}", page_size_));
    PEN_TRY_ASSIGN(const Meta other, read_meta(1, page_size_));
    if (other.free.pad != page_size_) return bad(1, "another page size than page 0");
    if (other.transaction > meta_.transaction) meta_ = other;
    if (meta_.last_page < 1 || meta_.last_page > kNone / 65536)
      return bad(0, fmt::format("last page {}", meta_.last_page));
    return {};
  }

  Result<void> claim(PageNumber number, PageNumber from) {
    if (number > meta_.last_page) return bad(from, fmt::format("refers to page {}", number));
    if (seen_[number]) return bad(from, fmt::format("refers to page {}, used twice", number));
    seen_[number] = true;
    return {};
  }

  // An explicit stack instead of recursion: the children of each level that are still to be read.
  Result<void> walk(const Tree& tree, bool of_free_pages) {
    if ((tree.flags & ~(of_free_pages ? kFreeTreeFlags : 0)) != 0)
      return bad(0, fmt::format("unexpected kind of database {:#x}", tree.flags));
    if (tree.root == kNone) return {};
    if (tree.depth == 0 || tree.depth > kMaxDepth) return bad(0, fmt::format("depth {}", tree.depth));
    struct Child {
      PageNumber number;
      PageNumber parent;
      unsigned level;
    };
    std::vector<Child> open = {{tree.root, 0, 1}};
    while (!open.empty()) {
      const Child next = open.back();
      open.pop_back();
      PEN_TRY(claim(next.number, next.parent));
      PEN_TRY(read_at(next.number * page_size_, page_.data(), page_size_));
      const bool leaf = next.level == tree.depth;
      PEN_TRY(look_at_page(next.number, leaf));
      // liblmdb accepts a branch with one child only in the tree of free pages.
      if (nodes_.size() < (leaf || of_free_pages ? 1U : 2U)) return bad(next.number, "holds too few nodes");
      for (const std::size_t at : nodes_) {
        if (!leaf) {
          open.push_back({child(at), next.number, next.level + 1});
        } else {
          PEN_TRY(look_at_data(next.number, at, of_free_pages));
        }
      }
    }
    return {};
  }

  /// Fills nodes_ with the places of the page's nodes and checks that each lies wholly on the page.
  Result<void> look_at_page(PageNumber number, bool leaf) {
    const std::byte* p = page_.data();
    if (load<PageNumber>(p) != number) return bad(number, "carries another number");
    const auto flags = static_cast<std::uint16_t>(load<std::uint16_t>(p + 10) & ~kDirty);
    if (flags != (leaf ? kLeaf : kBranch)) return bad(number, "is of the wrong kind");
    const std::size_t lower = load<std::uint16_t>(p + 12), upper = load<std::uint16_t>(p + 14);
    if (lower < kHeader || lower % 2 != 0 || lower > upper || upper > page_size_)
      return bad(number, "its free space lies outside it");
    nodes_.clear();
    for (std::size_t i = kHeader; i < lower; i += 2) {
      const std::size_t at = load<std::uint16_t>(p + i);
      if (at < upper || at % 2 != 0 || at + kNode > page_size_) return bad(number, "a node lies outside it");
      const std::size_t key = load<std::uint16_t>(p + at + 6);
      std::size_t data = 0;
      if (leaf) {
        const auto node_flags = load<std::uint16_t>(p + at + 4);
        if ((node_flags & ~kBigData) != 0) return bad(number, "a node of unexpected kind");
        data = (node_flags & kBigData) != 0 ? sizeof(PageNumber) : data_size(at);
      }
      if (at + kNode + key + data > page_size_) return bad(number, "a node reaches beyond it");
      nodes_.push_back(at);
    }
    return {};
  }

  Result<void> look_at_data(PageNumber number, std::size_t at, bool of_free_pages) {
    const std::size_t key_size = load<std::uint16_t>(page_.data() + at + 6);
    if (of_free_pages && key_size != sizeof(std::uint64_t))
      return bad(number, "a list of free pages has no transaction");
    const std::byte* data = page_.data() + at + kNode + key_size;
    const std::uint64_t size = data_size(at);
    std::vector<PageNumber> list(of_free_pages ? size / sizeof(PageNumber) : 0);
    if ((load<std::uint16_t>(page_.data() + at + 4) & kBigData) == 0) {
      if (!list.empty()) std::memcpy(list.data(), data, list.size() * sizeof(PageNumber));
    } else {
      const auto first = load<PageNumber>(data);
      if (first > meta_.last_page) return bad(number, fmt::format("refers to page {}", first));
      std::array<std::byte, kHeader> header;
      PEN_TRY(read_at(first * page_size_, header.data(), header.size()));
      const std::uint64_t pages = load<std::uint32_t>(header.data() + 12);
      const auto flags = load<std::uint16_t>(header.data() + 10) & ~kDirty;
      if (load<PageNumber>(header.data()) != first || flags != kOverflow)
        return bad(first, "is not a page of a long value");
      if (pages * page_size_ < kHeader + size) return bad(first, "is shorter than its value");
      for (PageNumber i = 0; i < pages; ++i) PEN_TRY(claim(first + i, number));
      if (!list.empty()) {
        PEN_TRY(read_at(first * page_size_ + kHeader, reinterpret_cast<std::byte*>(list.data()),
                        list.size() * sizeof(PageNumber)));
      }
    }
    return of_free_pages ? look_at_free_pages(number, list) : Result<void>();
  }

  /// A count and that many page numbers in descending order. None may be a page of the main tree, which was walked
  /// before.
  Result<void> look_at_free_pages(PageNumber number, const std::vector<PageNumber>& list) {
    if (list.empty() || list[0] > list.size() - 1) return bad(number, "a list of free pages is longer than its place");
    for (std::size_t i = 1; i <= list[0]; ++i) {
      if (list[i] < 2 || (i > 1 && list[i] >= list[i - 1])) return bad(number, "a list of free pages is out of order");
      PEN_TRY(claim(list[i], number));
    }
    return {};
  }

  std::size_t data_size(std::size_t at) const {
    return load<std::uint16_t>(page_.data() + at) | static_cast<std::size_t>(load<std::uint16_t>(page_.data() + at + 2))
                                                        << 16;
  }
  PageNumber child(std::size_t at) const {
    return data_size(at) | static_cast<PageNumber>(load<std::uint16_t>(page_.data() + at + 4)) << 32;
  }

  int fd_;
  std::uint64_t size_ = 0;
  std::uint64_t page_size_ = 0;
  Meta meta_{};
  std::vector<bool> seen_;
  std::vector<std::byte> page_;
  std::vector<std::size_t> nodes_;
};

}  // namespace

Result<void> check_pages(int fd) { return Checker(fd).run(); }

}  // namespace pen::lmdb
