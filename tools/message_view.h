#pragma once
/// A message as pencat shows it: envelope, header, body.
///
/// Use:     MessageSource source{.name = id, .envelope = …, .size = …, .read = …};
///          bool whole = show_message("pencat", source, parts);
/// Memory:  a piece of the content at a time.
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "lib/base/result.h"
#include "lib/mail/envelope.h"

namespace pen::tools {

/// What is shown of a message.
struct MessageParts {
  bool envelope = false, header = false, body = false;
  bool names = false;  // before each line
};

/// Where a message is read from.
struct MessageSource {
  std::string name;          // as it was asked for
  mail::Envelope envelope;   // of a message in the queue with its body facts
  bool has_envelope = true;  // it could be read
  std::string state;         // where it is, or what is not right with it; may be empty
  // of a submission: what is not in the envelope
  std::string full_name;
  bool gateway = false;
  std::uint64_t size = 0;
  std::string content = "its content";  // what to call it when it is damaged
  /// At most that many bytes of the content.
  std::function<Result<std::string>(std::uint64_t from, std::size_t most)> read;
};

/// To standard output. Whether all of it could be shown; if not, standard error says why.
bool show_message(const std::string& program, const MessageSource& source, const MessageParts& parts);

/// "program: name: what" to standard error, after what was shown so far.
void complain_of(const std::string& program, const std::string& name, const std::string& what);

/// How much of the content is header: the empty line after it belongs to the body, as with postcat. Errors: as read().
Result<std::uint64_t> header_size_of(const MessageSource& source);

/// Text for standard output: lines end in LF, as people read them, and begin with a prefix.
class LineOutput {
 public:
  explicit LineOutput(std::string prefix, std::function<void(const std::string&)> write);
  void put(std::string_view text);
  /// What comes next begins a line.
  void end();

 private:
  std::string prefix_;
  std::function<void(const std::string&)> write_;
  bool at_start_ = true;
  bool held_ = false;  // a CR that may belong to a line end
};

}  // namespace pen::tools
