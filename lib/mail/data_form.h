#pragma once
/// Turns stored content into the form of DATA: dots doubled at line starts, every line ended by CRLF, over-long lines
/// broken.
///
/// Use:     DataForm form(settings.line_length_limit);
///          form.feed(chunk, pieces);   // … in order; pieces are good until the next feed(): most point into the chunk
///          form.finish(pieces);        // CRLF if the last line lacks one, then "." CRLF
///          if (form.broken() > 0) …    // lines that were longer than the limit
///          DataForm form(limit, DataForm::Dots::as_they_are);     // only breaks lines; without finish()
/// Rules:   the scan looks at the bytes themselves and relies on no earlier note of where dots are. plain_lines()
///          costs next to nothing beside sending them, and so neither a wrong fact nor a bare LF that a policy let in
///          can end the data early and smuggle a message. A bare LF becomes CRLF; a bare CR stays.
/// Breaks:  a line over the limit is continued after CRLF SPACE, as in Postfix (smtp_line_length_limit); but a line of
///          the header is folded in front of the last blank that is within the limit, where it has one: no address or
///          message id is cut in two, and a signature with relaxed canonicalization holds.
/// Bounds:  of a header line that continues in the next chunk, as much as the limit is held.
/// Source:  RFC 5321 sections 4.5.2, 4.5.3.1.6; RFC 5322 section 2.2.3; docs/pipelining.md.
#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/bytes.h"

namespace pen::mail {

class DataForm {
 public:
  enum class Dots : std::uint8_t { doubled, as_they_are };
  explicit DataForm(std::size_t line_limit, Dots dots = Dots::doubled) : line_limit_(line_limit), dots_(dots) {}
  void feed(std::string_view chunk, std::vector<Bytes>& out);
  void finish(std::vector<Bytes>& out);

  /// What was fed is behind the header, in a line of which `column` bytes came before.
  void begin_in_body(std::size_t column) {
    in_header_ = false;
    column_ = column;
    line_start_ = column == 0;
  }
  /// Lines that were longer than the limit, and the bytes that their breaks took, in all and in the header.
  std::uint64_t broken() const { return broken_; }
  std::uint64_t added() const { return added_; }
  std::uint64_t added_to_header() const { return in_header_ ? added_ : added_to_header_; }

 private:
  /// Takes the header's part of a chunk, where it needs changes. Returns what is left.
  std::string_view header(std::string_view chunk, std::vector<Bytes>& out);
  /// Appends what is certain of the held line; all of it, if it is complete.
  void fold(bool complete, std::string& out);
  void end_header();
  struct Unbroken;
  void line_ended();
  void line_within(Unbroken& unbroken, std::size_t at, std::size_t end);
  void line_part(std::string_view part, std::vector<Bytes>& out);
  void count_break(std::size_t bytes);

  std::size_t line_limit_;
  Dots dots_;
  std::size_t column_ = 0;  // content bytes of the current line sent so far
  bool line_start_ = true;
  bool cr_ = false;     // the last byte seen was CR, held back until its line's fate is known
  bool broke_ = false;  // the current line was broken
  bool in_header_ = true;
  std::string held_;            // a header line that is not complete
  std::string folded_, ended_;  // what feed() and finish() made of header lines
  std::uint64_t broken_ = 0, added_ = 0, added_to_header_ = 0;
};

}  // namespace pen::mail
