#pragma once
/// Finds how much of a buffer is plain lines, and their facts, in one pass of 64 bytes at a time. Most content is
/// plain, and so is looked at once and moved in one piece.
///
/// Use:     const auto run = plain_lines(text);       // text begins at the start of a line
///          … text.substr(0, run.size) is whole lines; look at the line behind them by itself …
/// Plain:   a line that ends in CRLF, holds no other CR or LF, does not begin with a dot, and is not longer than
///          max_line.
/// Speed:   AVX-512, AVX2 or SSE2 where the processor has it, else portable code with the same result. A call costs no
///          more than the lines it finds and a few blocks behind them.
/// Pure.
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace pen::mail {

struct PlainLines {
  std::size_t size = 0;     // of all plain lines with their line ends; 0: the first line is not plain, or incomplete
  std::size_t longest = 0;  // bytes without CRLF
  bool eight_bit = false;
  bool nul = false;
  bool operator==(const PlainLines&) const = default;
};

PlainLines plain_lines(std::string_view text, std::size_t max_line = SIZE_MAX);

/// For tests: selects one implementation. Returns false if this processor does not support it.
enum class BlockCode : std::uint8_t { plain, sse2, avx2, avx512 };
bool plain_lines_by(BlockCode code, std::string_view text, std::size_t max_line, PlainLines& found);

}  // namespace pen::mail
