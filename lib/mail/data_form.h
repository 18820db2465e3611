#pragma once
/// Turns stored content into the form of DATA: dots doubled at line starts, every line ended by CRLF, over-long lines
/// broken.
///
/// Use:     DataForm form(settings.line_length_limit);
///          form.feed(chunk, pieces);   // … in order; pieces point into chunk or into constants: nothing is copied
///          form.finish(pieces);        // CRLF if the last line lacks one, then "." CRLF
/// Rules:   the scan looks at the bytes themselves and relies on no earlier note of where dots are. plain_lines()
///          costs next to nothing beside sending them, and so neither a wrong fact nor a bare LF that a policy let in
///          can end the data early and smuggle a message. A bare LF becomes CRLF; a bare CR stays. A line over the
///          limit is continued after CRLF SPACE, as in Postfix (smtp_line_length_limit).
/// Source:  RFC 5321 sections 4.5.2, 4.5.3.1.6; docs/pipelining.md.
#include <vector>

#include "lib/base/bytes.h"

namespace pen::mail {

class DataForm {
 public:
  explicit DataForm(std::size_t line_limit) : line_limit_(line_limit) {}
  void feed(std::string_view chunk, std::vector<Bytes>& out);
  void finish(std::vector<Bytes>& out);

 private:
  void line_part(std::string_view part, std::vector<Bytes>& out);

  std::size_t line_limit_;
  std::size_t column_ = 0;  // content bytes of the current line sent so far
  bool line_start_ = true;
  bool cr_ = false;  // the last byte seen was CR, held back until its line's fate is known
};

}  // namespace pen::mail
