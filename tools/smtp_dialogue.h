#pragma once
/// SMTP as `sendmail -bs` speaks it on its standard input and output, for one local user.
///
/// Use:     SmtpDialogue dialogue(options, [] { return std::make_unique<Pendrop>(…); });
///          write(dialogue.greeting());
///          while (!dialogue.ended() && read(bytes)) {
///            replies.clear(); dialogue.feed(bytes, replies); write(replies);
///          }
/// Accepts: what the user may submit in any other way: no client is checked and no recipient looked up, and the mail
///          system need not run. A transaction is one message; its 250 means the same as exit status 0 of sendmail.
/// Lines:   CRLF. A client that ends its DATA command in a bare LF writes its message in the same way, and is
///          understood. With any other client a bare LF ends no message, so that nobody's text can pose as a command.
/// Bounds:  command lines of kMaxLine bytes, recipients as the options say, content in pieces to the outlet.
/// Source:  RFC 5321, 1870, 2920, 3461, 6152, 6531, XVERP (docs/verp.md); Postfix sendmail(1) -bs, smtpd(8) -S.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "lib/mail/command.h"
#include "lib/mail/wire.h"
#include "tools/sendmail_submit.h"

namespace pen::tools {

class SmtpDialogue {
 public:
  struct Options {
    std::string hostname, mail_name;
    std::uint64_t size_limit = 0;        // message_size_limit; 0: none
    std::size_t recipient_limit = 1000;  // smtpd_recipient_limit; 0: what a submission holds
    bool smtputf8 = true;                // smtputf8_enable
    std::string verp = "+=";             // default_verp_delimiters
    std::string verp_filter = "-=+";     // verp_delimiter_filter
  };
  using Outlets = std::function<std::unique_ptr<Outlet>()>;
  static constexpr std::size_t kMaxLine = 2048;

  SmtpDialogue(Options options, Outlets outlets);
  std::string greeting() const;
  /// Takes any piece of the input and appends the replies to it. Takes nothing after the end.
  void feed(std::string_view in, std::string& replies);
  /// True: QUIT was answered.
  bool ended() const { return ended_; }

 private:
  /// The target of the content scanner.
  struct Sink {
    void text(std::string_view part) { content += part; }
    void line_end() { content += '\n'; }
    std::string content;
  };
  struct Message {
    explicit Message(std::unique_ptr<Outlet> to) : outlet(std::move(to)) {}
    std::unique_ptr<Outlet> outlet;
    mail::DataScanner scanner;
    std::uint64_t size = 0;
    bool wanted = true;
    bool cr = false;  // the last byte was a CR; counts for lf_only_
  };
  std::string command(std::string_view line, bool crlf);
  std::string hello(std::string_view name, bool extended);
  std::string mail_from(std::string_view args);
  std::string rcpt_to(std::string_view args);
  std::string data(bool crlf);
  std::size_t take_content(std::string_view in, std::string& replies);
  void reset();

  Options options_;
  Outlets outlets_;
  mail::CommandOptions extensions_;
  std::string line_;
  bool too_long_ = false, ended_ = false, lf_only_ = false;
  std::optional<submission::Submission> mail_;
  std::unique_ptr<Message> message_;  // while its content comes in
  Sink sink_;
};

/// Serves the client at `in` and `out` until QUIT, the end of the input, or `timeout` without input. Returns a code
/// of sysexits.h.
int serve_smtp(SmtpDialogue& dialogue, int in, int out, seconds timeout);

}  // namespace pen::tools
