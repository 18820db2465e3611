#pragma once
/// Prints a message for pencat: envelope, header, body.
///
/// Use:     MessageSource source{.name = id, .envelope = …, .size = …, .read = …};
///          bool whole = show_message("pencat", source, parts, print);
/// Memory:  a piece of the content at a time.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "lib/base/result.h"
#include "lib/mail/envelope.h"

namespace pen::tools {

/// The parts of a message to print.
struct MessageParts {
  bool envelope = false, header = false, body = false;
  bool names = false;       // before each line
  bool offsets = false;     // before each line of the content: where it begins there
  bool types = false;       // before each line: the type of record that it is in a queue file of Postfix
  std::uint64_t start = 0;  // only the content from this byte on
  bool json = false;        // the envelope alone, as JSON
};

/// The source of a message.
struct MessageSource {
  std::string name;          // as the user named it
  std::string place = {};    // the queue or directory that has it; empty: the name says it
  mail::Envelope envelope;   // of a message in the queue, with its body facts
  bool has_envelope = true;  // it was readable
  std::string fault;         // what is wrong with it; may be empty
  // Of a submission, in addition to the envelope.
  std::string full_name;
  bool gateway = false;
  std::uint64_t size = 0;
  std::string content = "its content";  // its name in reports of damage
  /// Reads at most `most` bytes of the content.
  std::function<Result<std::string>(std::uint64_t from, std::size_t most)> read;

  std::string path() const { return place.empty() ? name : place + "/" + name; }
};

/// Record types of Postfix's queue files (docs/postfix-queue.md), as postcat -d shows them.
enum class Record : char {
  size = 'C',
  arrival = 'T',
  attribute = 'A',
  full_name = 'F',
  sender = 'S',
  filter = 'L',
  verp = 'V',
  original_recipient = 'O',
  recipient = 'R',
  content = 'M',
  line = 'N',
  extracted = 'X',
  end = 'E'
};

/// The envelope as a line of JSON, as postcat's fields are named; what says nothing is left out. Pure.
std::string json_envelope(const MessageSource& source);

using Write = std::function<void(const std::string&)>;

/// Prints as postcat does. False: a part could not be shown, which has been reported.
bool show_message(const std::string& program, const MessageSource& source, const MessageParts& parts,
                  const Write& write);

/// Prints "program: name: what" to standard error, after the output so far.
void complain_of(const std::string& program, const std::string& name, const std::string& what);

/// The size of the header within the content: the empty line after it belongs to the body, as with postcat. Errors:
/// as read().
Result<std::uint64_t> header_size_of(const MessageSource& source);

/// Writes text: lines end in LF, and begin with a prefix.
class LineOutput {
 public:
  explicit LineOutput(std::string prefix, Write write);
  void put(std::string_view text);
  /// From here on each line begins with its offset, of which the first is this one.
  void count_from(std::uint64_t offset) { offset_ = offset; }
  void count_no_more() { offset_.reset(); }
  /// From here on each line shows that type of record.
  void show_type(Record type) { type_ = type; }
  /// Ends a line that is still open.
  void end();

 private:
  std::string prefix_;
  Write write_;
  std::optional<std::uint64_t> offset_;
  std::optional<Record> type_;
  bool at_start_ = true;
  bool held_ = false;  // a CR that may belong to a line end has not been written yet
};

}  // namespace pen::tools
