#include "lib/mail/data_form.h"

#include <algorithm>
#include <utility>

#include "lib/mail/plain_lines.h"

namespace pen::mail {
namespace {

constexpr std::string_view kFold = "\r\n";
constexpr std::string_view kBreak = "\r\n ";

bool blank(char c) { return c == ' ' || c == '\t'; }

/// Where a header line may be folded so that at most `room` bytes stand before it: at a blank, with something else
/// before it and behind it, so that no line consists of blanks. 0: nowhere.
std::size_t fold_at(std::string_view line, std::size_t room) {
  if (line.size() < 2) return 0;
  const std::size_t first = line.find_first_not_of(" \t");
  for (std::size_t at = std::min(room, line.size() - 2); at > first; --at)
    if (blank(line[at]) && !blank(line[at + 1])) return at;
  return 0;
}

/// The bytes of whole header lines at the start, without the empty line behind them; all, if that does not come.
std::size_t header_lines(std::string_view chunk) {
  if (chunk.starts_with("\r\n") || chunk.starts_with('\n')) return 0;
  const auto crlf = chunk.find("\n\r\n");
  const auto lf = chunk.substr(0, crlf).find("\n\n");
  const auto end = std::min(crlf, lf);
  return end == std::string_view::npos ? chunk.size() : end + 1;
}

}  // namespace

void DataForm::count_break(std::size_t bytes) {
  added_ += bytes;
  if (!std::exchange(broke_, true)) ++broken_;
}

void DataForm::end_header() {
  in_header_ = false;
  added_to_header_ = added_;
}

void DataForm::fold(bool complete, std::string& out) {
  std::string_view rest = held_;
  // Of a line that goes on, two bytes more must be known: one behind a blank, and a CR may be the line's end.
  const auto too_long = [&] { return rest.size() > line_limit_ - column_ + (complete ? 0 : 2); };
  if (!complete && !too_long()) return;
  if (column_ == 0 && rest.starts_with('.') && dots_ == Dots::doubled) out += '.';
  while (too_long()) {
    const std::size_t room = line_limit_ - column_;
    if (const std::size_t at = fold_at(rest, room); at > 0) {
      out += rest.substr(0, at);
      out += kFold;
      count_break(kFold.size());
      rest.remove_prefix(at);
      column_ = 0;
      continue;
    }
    out += rest.substr(0, room);
    out += kBreak;
    count_break(kBreak.size());
    rest.remove_prefix(room);
    column_ = 1;
    if (column_ >= line_limit_) line_limit_ = 2;  // with a limit of 1 the line would never end
  }
  if (complete) {
    out += rest;
    held_.clear();
    column_ = 0;
    broke_ = false;
  } else {
    held_.erase(0, held_.size() - rest.size());
  }
}

std::string_view DataForm::header(std::string_view chunk, std::vector<Bytes>& out) {
  if (held_.empty()) {
    const std::size_t size = header_lines(chunk);
    if (plain_lines(chunk.substr(0, size), line_limit_).size == size) {
      if (size < chunk.size()) end_header();
      return chunk;
    }
  }
  folded_.clear();
  while (in_header_ && !chunk.empty()) {
    const auto lf = chunk.find('\n');
    const bool complete = lf != std::string_view::npos;
    held_ += chunk.substr(0, lf);
    chunk.remove_prefix(complete ? lf + 1 : chunk.size());
    if (complete && held_.ends_with('\r')) held_.pop_back();
    // Before fold(): a line of which a part was put out is not empty.
    const bool empty = complete && held_.empty() && column_ == 0;
    fold(complete, folded_);
    if (complete) folded_ += "\r\n";
    if (empty) end_header();
  }
  if (!folded_.empty()) out.push_back(as_bytes(folded_));
  return chunk;
}

void DataForm::line_part(std::string_view part, std::vector<Bytes>& out) {
  if (part.empty()) return;
  if (line_start_) {
    if (part.front() == '.' && dots_ == Dots::doubled) out.push_back(as_bytes("."));
    line_start_ = false;
  }
  if (line_limit_ == 0) {
    out.push_back(as_bytes(part));
    column_ += part.size();
    return;
  }
  while (!part.empty()) {
    if (column_ == line_limit_) {
      out.push_back(as_bytes(kBreak));
      count_break(kBreak.size());
      column_ = 1;
      if (column_ >= line_limit_) line_limit_ = 2;  // with a limit of 1 the line would never end
    }
    const std::size_t take = std::min(part.size(), line_limit_ - column_);
    out.push_back(as_bytes(part.substr(0, take)));
    column_ += take;
    part.remove_prefix(take);
  }
}

/// What leaves of a chunk unchanged: unbroken stretches are one piece, cut only where something must be inserted.
struct DataForm::Unbroken {
  std::string_view chunk;
  std::vector<Bytes>& out;
  std::size_t begin = 0;  // of the stretch that is not yet put out; its lines before the current one need no change

  void put(std::size_t end) {
    if (end > begin) out.push_back(as_bytes(chunk.substr(begin, end - begin)));
    begin = end;
  }
  /// What takes the place of the bytes up to `next`, of which those up to `end` leave.
  void replace(std::size_t end, std::string_view text, std::size_t next) {
    put(end);
    out.push_back(as_bytes(text));
    begin = next;
  }
};

void DataForm::line_ended() {
  column_ = 0;
  line_start_ = true;
  broke_ = false;
}

/// A line, or the part of one that the chunk has, without its end.
void DataForm::line_within(Unbroken& unbroken, std::size_t at, std::size_t end) {
  const std::size_t length = end - at;
  if (length == 0) return;
  if (line_limit_ != 0 && column_ + length > line_limit_) {
    unbroken.put(at);
    line_part(unbroken.chunk.substr(at, length), unbroken.out);
    unbroken.begin = end;
  } else {
    if (dots_ == Dots::doubled && line_start_ && unbroken.chunk[at] == '.') unbroken.replace(at, ".", at);
    column_ += length;
  }
  line_start_ = false;
}

void DataForm::feed(std::string_view chunk, std::vector<Bytes>& out) {
  if (in_header_ && line_limit_ != 0) chunk = header(chunk, out);
  Unbroken unbroken{chunk, out};
  std::size_t at = 0;
  while (at < chunk.size()) {
    if (cr_) {  // held back from the previous chunk, or from a bare CR at its end
      cr_ = false;
      if (chunk[at] == '\n') {
        ++at;
        unbroken.replace(unbroken.begin, "\r\n", at);
        line_ended();
        continue;
      }
      line_part("\r", out);
      unbroken.begin = at;
    }
    if (line_start_) {
      const PlainLines plain = plain_lines(chunk.substr(at), line_limit_ == 0 ? SIZE_MAX : line_limit_);
      at += plain.size;
      if (at == chunk.size()) break;
    }
    const auto lf = chunk.find('\n', at);
    const bool complete = lf != std::string_view::npos;
    std::size_t end = complete ? lf : chunk.size();
    const bool ends_cr = end > at && chunk[end - 1] == '\r';
    if (ends_cr) --end;
    line_within(unbroken, at, end);
    if (complete) {
      if (!ends_cr) unbroken.replace(end, "\r\n", lf + 1);
      at = lf + 1;
      line_ended();
    } else {
      if (ends_cr) {
        unbroken.put(end);
        unbroken.begin = chunk.size();
        cr_ = true;
      }
      at = chunk.size();
    }
  }
  unbroken.put(chunk.size());
}

void DataForm::finish(std::vector<Bytes>& out) {
  if (!held_.empty()) {
    fold(true, ended_);
    out.push_back(as_bytes(ended_));
    out.push_back(as_bytes("\r\n"));
  }
  if (cr_) {
    cr_ = false;
    line_part("\r", out);
  }
  if (!line_start_) out.push_back(as_bytes("\r\n"));
  line_start_ = true;
  column_ = 0;
  out.push_back(as_bytes(".\r\n"));
}

}  // namespace pen::mail
