#pragma once
/// sendmail's part of submitting a message: reads it from a descriptor and hands it to pendrop.
///
/// Use:     Pendrop drop({.program = …, .config_directory = …});
///          status = submit(drop, std::move(mail), {.header_recipients = true}, 0);
/// Ends:    with a code of sysexits.h, pendrop's own when it has one; what is wrong was said on standard error.
/// Thread:  the only one of the process. SIGPIPE must be ignored.
#include <sys/types.h>

#include <string>
#include <string_view>

#include "lib/submission/format.h"

namespace pen::tools {

/// A run of pendrop, for one message.
class Pendrop {
 public:
  struct Options {
    std::string program, config_directory;  // "": pendrop's default
    bool verbose = false;
  };
  explicit Pendrop(Options options) : options_(std::move(options)) {}
  /// A message that was not finished is not taken.
  ~Pendrop();
  Pendrop(const Pendrop&) = delete;
  Pendrop& operator=(const Pendrop&) = delete;

  /// Each says whether pendrop listens still; when not, finish() says why.
  bool start(const submission::Submission& mail);
  bool content(std::string_view text);
  bool running() const { return pid_ > 0; }
  /// The message is whole: waits for pendrop's word.
  int finish();

 private:
  bool put(std::string_view bytes);
  bool piece(std::string_view bytes);
  int wait();
  Options options_;
  pid_t pid_ = -1;
  int pipe_ = -1;
};

struct Reading {
  bool dot_ends = true;            // no -i
  bool header_recipients = false;  // -t
  std::uint8_t notify = 0;         // of those that the header names
};
/// Reads the message from `input` and submits it. mail.recipients are empty when the header names them.
int submit(Pendrop& drop, submission::Submission mail, const Reading& how, int input);

/// "sendmail: text" on standard error.
void complain(std::string_view text);

}  // namespace pen::tools
