#include "lib/mail/data_form.h"

#include <algorithm>

#include "lib/mail/plain_lines.h"

namespace pen::mail {

void DataForm::line_part(std::string_view part, std::vector<Bytes>& out) {
  if (part.empty()) return;
  if (line_start_) {
    if (part.front() == '.') out.push_back(as_bytes("."));
    line_start_ = false;
  }
  if (line_limit_ == 0) {
    out.push_back(as_bytes(part));
    column_ += part.size();
    return;
  }
  while (!part.empty()) {
    if (column_ == line_limit_) {
      out.push_back(as_bytes("\r\n "));
      column_ = 1;
      if (column_ >= line_limit_) line_limit_ = 2;  // with a limit of 1 the line would never end
    }
    const std::size_t take = std::min(part.size(), line_limit_ - column_);
    out.push_back(as_bytes(part.substr(0, take)));
    column_ += take;
    part.remove_prefix(take);
  }
}

void DataForm::feed(std::string_view chunk, std::vector<Bytes>& out) {
  // Unbroken stretches leave as one piece, cut only where something must be inserted. `begin` is the start of the
  // stretch that is not yet put out; its lines before the current one need no change.
  std::size_t begin = 0;
  std::size_t at = 0;
  auto put = [&](std::size_t end) {
    if (end > begin) out.push_back(as_bytes(chunk.substr(begin, end - begin)));
    begin = end;
  };
  while (at < chunk.size()) {
    if (cr_) {  // held back from the previous chunk, or from a bare CR at its end
      cr_ = false;
      if (chunk[at] == '\n') {
        out.push_back(as_bytes("\r\n"));
        begin = ++at;
        column_ = 0;
        line_start_ = true;
        continue;
      }
      line_part("\r", out);
      begin = at;
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
    const std::size_t length = end - at;
    const bool dot = line_start_ && length > 0 && chunk[at] == '.';
    const bool too_long = line_limit_ != 0 && column_ + length > line_limit_;
    if (dot || too_long) {
      put(at);
      if (too_long) {
        line_part(chunk.substr(at, length), out);
        begin = end;
      } else {
        out.push_back(as_bytes("."));
        column_ += length;
      }
    } else {
      column_ += length;
    }
    if (length > 0) line_start_ = false;
    if (complete) {
      if (!ends_cr) {
        put(end);
        out.push_back(as_bytes("\r\n"));
        begin = lf + 1;
      }
      at = lf + 1;
      column_ = 0;
      line_start_ = true;
    } else {
      if (ends_cr) {
        put(end);
        begin = chunk.size();
        cr_ = true;
      }
      at = chunk.size();
    }
  }
  put(chunk.size());
}

void DataForm::finish(std::vector<Bytes>& out) {
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
