#include "lib/mail/plain_lines.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace pen::mail {
namespace {

constexpr std::size_t kBlock = 64;
constexpr std::size_t kMaxBatch = 16;  // blocks marked before their lines are counted

/// Positions of the special bytes in a block: bit i for byte i.
struct Marks {
  std::uint64_t lf, cr, dot, eight_bit, nul;
};
/// Marks a number of blocks.
using Mark = void (*)(const char* from, std::size_t blocks, Marks* marks);

void mark_plain(const char* from, std::size_t blocks, Marks* marks) {
  for (; blocks > 0; --blocks, ++marks, from += kBlock) {
    Marks m{};
    for (std::size_t i = 0; i < kBlock; ++i) {
      const auto c = static_cast<unsigned char>(from[i]);
      m.lf |= std::uint64_t{c == '\n'} << i;
      m.cr |= std::uint64_t{c == '\r'} << i;
      m.dot |= std::uint64_t{c == '.'} << i;
      m.eight_bit |= std::uint64_t{c >= 0x80} << i;
      m.nul |= std::uint64_t{c == 0} << i;
    }
    *marks = m;
  }
}

#if defined(__x86_64__)

std::uint64_t bits(__m128i v) { return static_cast<std::uint16_t>(_mm_movemask_epi8(v)); }

void mark_sse2(const char* from, std::size_t blocks, Marks* marks) {
  for (; blocks > 0; --blocks, ++marks, from += kBlock) {
    Marks m{};
    for (std::size_t i = 0; i < kBlock; i += 16) {
      const __m128i v = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
      m.lf |= bits(_mm_cmpeq_epi8(v, _mm_set1_epi8('\n'))) << i;
      m.cr |= bits(_mm_cmpeq_epi8(v, _mm_set1_epi8('\r'))) << i;
      m.dot |= bits(_mm_cmpeq_epi8(v, _mm_set1_epi8('.'))) << i;
      m.eight_bit |= bits(v) << i;
      m.nul |= bits(_mm_cmpeq_epi8(v, _mm_setzero_si128())) << i;
    }
    *marks = m;
  }
}

[[gnu::target("avx2")]] std::uint64_t bits(__m256i v) { return static_cast<std::uint32_t>(_mm256_movemask_epi8(v)); }

[[gnu::target("avx2")]] void mark_avx2(const char* from, std::size_t blocks, Marks* marks) {
  for (; blocks > 0; --blocks, ++marks, from += kBlock) {
    Marks m{};
    for (std::size_t i = 0; i < kBlock; i += 32) {
      const __m256i v = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i));
      m.lf |= bits(_mm256_cmpeq_epi8(v, _mm256_set1_epi8('\n'))) << i;
      m.cr |= bits(_mm256_cmpeq_epi8(v, _mm256_set1_epi8('\r'))) << i;
      m.dot |= bits(_mm256_cmpeq_epi8(v, _mm256_set1_epi8('.'))) << i;
      m.eight_bit |= bits(v) << i;
      m.nul |= bits(_mm256_cmpeq_epi8(v, _mm256_setzero_si256())) << i;
    }
    *marks = m;
  }
}

[[gnu::target("avx512f,avx512bw")]] void mark_avx512(const char* from, std::size_t blocks, Marks* marks) {
  for (; blocks > 0; --blocks, ++marks, from += kBlock) {
    const __m512i v = _mm512_loadu_si512(from);
    marks->lf = _mm512_cmpeq_epi8_mask(v, _mm512_set1_epi8('\n'));
    marks->cr = _mm512_cmpeq_epi8_mask(v, _mm512_set1_epi8('\r'));
    marks->dot = _mm512_cmpeq_epi8_mask(v, _mm512_set1_epi8('.'));
    marks->eight_bit = _mm512_movepi8_mask(v);
    marks->nul = _mm512_testn_epi8_mask(v, v);
  }
}

#endif

/// nullptr: this processor does not support the code.
Mark mark_by(BlockCode code) {
  switch (code) {
    case BlockCode::plain:
      return mark_plain;
#if defined(__x86_64__)
    case BlockCode::sse2:
      return mark_sse2;
    case BlockCode::avx2:
      return __builtin_cpu_supports("avx2") ? mark_avx2 : nullptr;
    case BlockCode::avx512:
      return __builtin_cpu_supports("avx512bw") ? mark_avx512 : nullptr;
#else
    case BlockCode::sse2:
    case BlockCode::avx2:
    case BlockCode::avx512:
      break;
#endif
  }
  return nullptr;
}

Mark best_mark() {
  for (const auto code : {BlockCode::avx512, BlockCode::avx2, BlockCode::sse2})
    if (const Mark mark = mark_by(code)) return mark;
  return mark_plain;
}

/// Counts lines, block by block.
class LineCount {
 public:
  explicit LineCount(std::size_t max_line) : max_line_(max_line) {}

  /// False: the line that continues into the block is not plain, or too long.
  bool add(const Marks& m, std::size_t at) {
    if ((m.eight_bit | m.nul) != 0) {
      note_first(m.eight_bit, at, first_eight_bit_);
      note_first(m.nul, at, first_nul_);
    }
    const std::uint64_t behind_cr = m.cr << 1 | cr_before_;
    const std::uint64_t line_starts = m.lf << 1 | lf_before_;
    const std::uint64_t odd = (behind_cr ^ m.lf) | (line_starts & m.dot);
    cr_before_ = m.cr >> 63;
    lf_before_ = m.lf >> 63;
    if (odd == 0) [[likely]]
      return end_lines(m.lf, at);
    end_lines(m.lf & ((odd & (0 - odd)) - 1), at);  // the line ends before the first oddity
    return false;
  }
  PlainLines take() {
    found_.eight_bit = first_eight_bit_ < found_.size;
    found_.nul = first_nul_ < found_.size;
    return found_;
  }

 private:
  /// False: a line is too long.
  bool end_lines(std::uint64_t ends, std::size_t at) {
    // After a line of a block or more, only the first line that ends here can be longer. So there is no branch on
    // whether a block has line ends: such a branch cannot be predicted.
    if (found_.longest < kBlock) [[unlikely]]
      return end_short_lines(ends, at);
    const bool any = ends != 0;
    const std::size_t length = at + static_cast<std::size_t>(std::countr_zero(ends)) - 1 - found_.size;
    const std::size_t longest = std::max(found_.longest, any ? length : 0);
    if (longest > max_line_) [[unlikely]]
      return false;
    found_.longest = longest;
    found_.size = any ? at + kBlock - static_cast<std::size_t>(std::countl_zero(ends)) : found_.size;
    return true;
  }
  bool end_short_lines(std::uint64_t ends, std::size_t at) {
    for (; ends != 0; ends &= ends - 1) {
      const std::size_t end = at + static_cast<std::size_t>(std::countr_zero(ends)) + 1;
      const std::size_t length = end - found_.size - 2;
      if (length > max_line_) return false;
      found_.longest = std::max(found_.longest, length);
      found_.size = end;
    }
    return true;
  }
  static void note_first(std::uint64_t marks, std::size_t at, std::size_t& first) {
    if (marks != 0 && first == SIZE_MAX) first = at + static_cast<std::size_t>(std::countr_zero(marks));
  }

  std::size_t max_line_;
  PlainLines found_;
  std::size_t first_eight_bit_ = SIZE_MAX, first_nul_ = SIZE_MAX;
  std::uint64_t cr_before_ = 0;
  std::uint64_t lf_before_ = 1;  // the text begins at the start of a line
};

PlainLines count_lines(Mark mark, std::string_view text, std::size_t max_line) {
  LineCount count(max_line);
  std::array<Marks, kMaxBatch> marks;
  std::size_t at = 0;
  // Batches grow, so that a row of odd lines costs one block each and not a batch.
  for (std::size_t batch = 1; text.size() - at >= kBlock; batch = std::min(batch * 2, kMaxBatch)) {
    const std::size_t blocks = std::min(batch, (text.size() - at) / kBlock);
    mark(text.data() + at, blocks, marks.data());
    for (std::size_t i = 0; i < blocks; ++i, at += kBlock)
      if (!count.add(marks[i], at)) return count.take();
  }
  if (at < text.size()) {
    std::array<char, kBlock> last;
    last.fill('x');  // no mark of any kind
    std::memcpy(last.data(), text.data() + at, text.size() - at);
    mark(last.data(), 1, marks.data());
    count.add(marks[0], at);
  }
  return count.take();
}

}  // namespace

PlainLines plain_lines(std::string_view text, std::size_t max_line) {
  static const Mark mark = best_mark();
  return count_lines(mark, text, max_line);
}

bool plain_lines_by(BlockCode code, std::string_view text, std::size_t max_line, PlainLines& found) {
  const Mark mark = mark_by(code);
  if (mark == nullptr) return false;
  found = count_lines(mark, text, max_line);
  return true;
}

}  // namespace pen::mail
