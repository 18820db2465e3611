#pragma once
/// What may be shown of an SMTP dialogue: neither credentials nor content.
///
/// Use:     ShownDialogue shown(ShownDialogue::Side::server);
///          out << shown.command("AUTH PLAIN AHAAcGFzcw==");    // every line in order, without its end
///          out << shown.reply("235 2.7.0 Ok");
/// Secrets: text after the mechanism's name in AUTH is "***", and so are challenges and responses; report responses by
///          response(), never by command(). Never pass the content of DATA and BDAT. A client whose AUTH, DATA or BDAT
///          was refused may send the rest anyway. So of a client only undoubted commands are shown then, until such a
///          command is accepted, or until RSET or MAIL comes before anything had to be hidden.
/// Views:   what is returned lives until the next call, and as long as the line that was passed.
/// Pure: no I/O, no clock.
#include <cstdint>
#include <string>
#include <string_view>

#include "lib/mail/command.h"

namespace pen::mail {

class ShownDialogue {
 public:
  enum class Side : std::uint8_t { server, client };  // which side we are
  enum class Begin : std::uint8_t { start, midway };
  /// midway: what was said before is not known: it may have been AUTH or a refused DATA.
  explicit ShownDialogue(Side side, Begin begin = Begin::start);

  std::string_view command(std::string_view line);
  /// Of a line that answers a challenge of AUTH.
  std::string_view response() const;
  /// Of one line of a reply.
  std::string_view reply(std::string_view line);
  Side side() const { return side_; }
  /// The verb of the last command; unknown: it was hidden, or is no verb.
  Verb verb() const { return last_; }

 private:
  Side side_;
  Verb last_ = Verb::unknown;  // the command that a reply answers; of a client that pipelines, only AUTH matters
  bool hide_ = false;          // (server) hide everything that is not an undoubted command
  bool hid_ = false;           // (server) something was hidden
  std::string own_;
};

/// Calls each(line) for lines that end with CRLF each; the last one may be without it.
template <class F>
void for_each_line(std::string_view text, F each) {
  while (!text.empty()) {
    const auto end = text.find("\r\n");
    each(text.substr(0, end));
    if (end == std::string_view::npos) return;
    text.remove_prefix(end + 2);
  }
}

}  // namespace pen::mail
