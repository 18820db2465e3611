#pragma once
/// sendmail's part of submitting a message: reads it from a descriptor and hands it to pendrop.
///
/// Use:     Pendrop drop({.program = …, .config_directory = …});
///          status = submit(drop, std::move(mail), {.header_recipients = true}, 0);
/// Ends:    with a code of sysexits.h, pendrop's own if it has one; errors have been reported on standard error.
/// Thread:  the only one of the process. SIGPIPE must be ignored.
#include <sys/types.h>

#include <string>
#include <string_view>

#include "lib/receive/submission/format.h"
#include "lib/receive/submission/input.h"

namespace pen::tools {

/// Takes one message.
class Outlet {
 public:
  virtual ~Outlet() = default;
  /// Returns whether more of the message is wanted; if not, finish() has the reason.
  virtual bool start(const submission::Submission& mail) = 0;
  virtual bool content(std::string_view text) = 0;
  /// Ends the message. Returns a code of sysexits.h; EX_OK: it is on stable storage. Without this call nothing is
  /// submitted.
  virtual int finish() = 0;
};

/// A run of pendrop, for one message; or a connection to pickup in its place, which speaks the same form.
class Pendrop final : public Outlet {
 public:
  struct Options {
    std::string program, config_directory;  // "": pendrop's default
    bool verbose = false;
    std::string socket = {};  // pickup's, where pendrop cannot have its group: see submit_socket()
  };
  explicit Pendrop(Options options) : options_(std::move(options)) {}
  /// An unfinished message is not submitted.
  ~Pendrop() override;
  Pendrop(const Pendrop&) = delete;
  Pendrop& operator=(const Pendrop&) = delete;

  bool start(const submission::Submission& mail) override;
  bool content(std::string_view text) override;
  bool running() const { return pid_ > 0 || connected_; }
  /// Waits for pendrop's exit status.
  int finish() override;

 private:
  bool put(std::string_view bytes);
  bool piece(std::string_view bytes);
  int wait();
  int read_answer();
  /// False: nobody is there, and pendrop will say what is wrong.
  bool connected();
  Options options_;
  bool connected_ = false;
  pid_t pid_ = -1;
  int pipe_ = -1;
};

struct Reading {
  bool dot_ends = true;            // no -i
  bool header_recipients = false;  // -t
  submission::InputFilter::CarriageReturn ends = submission::InputFilter::CarriageReturn::always;
  std::uint8_t notify = 0;  // for the recipients in the header
};
/// Reads the message from `input` and submits it to mail.recipients and those in the header.
int submit(Pendrop& drop, submission::Submission mail, const Reading& how, int input);

/// Whether the set-group-id pendrop at this path would run without its group, so that the kernel keeps it from writing
/// to maildrop: no_new_privs, a file system without set-id, or no such bit on the file. root needs none.
bool lacks_its_group(const std::string& pendrop);

/// Prints "sendmail: text" to standard error.
void complain(std::string_view text);

}  // namespace pen::tools
