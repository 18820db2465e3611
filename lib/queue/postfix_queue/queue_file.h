#pragma once
/// Reads the files of Postfix's queue: incoming, active, deferred, hold, maildrop.
///
/// Use:     auto message = read_queue_file(bytes);                      // envelope
///          auto same = read_queue_file(bytes, [&](std::string_view part, bool line_ends) { … });   // and content
/// Grammar: records: a type byte, the length of the data in groups of seven bits, low first, the high bit for "more
///          follows", the data. Envelope records up to M, content records up to X, extracted ones (more recipients) up
///          to E. p leads elsewhere in the file, where a filter has changed it. docs/postfix-queue.md has the types.
/// Done:    a recipient that needs nothing more has the type D in place of R.
/// Bounds:  each byte of the file is looked at as one record's at most: pointers that go in circles are an error, and
///          so is a file of more than kMaxFile bytes. Recipients and attributes are views of no more than the file
///          holds.
/// Source:  files written by Postfix 3.7, its manual pages (postcat(1), cleanup(8), qmgr(8)), and its list of types.
/// Pure; any thread.
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "lib/base/time.h"

namespace pen::postfix_queue {

enum class FileError {
  not_ours = 1,  // no file of Postfix's queue
  cut_short,     // ends before its end record, or within a record
  damaged,       // a record that cannot be there, a word in place of a number
  circular,      // pointers lead over the same records again
  too_large,
};
std::string_view error_module(FileError);
std::string_view describe(FileError);

inline constexpr std::uint64_t kMaxFile = std::uint64_t{1} << 30;

/// The bits of NOTIFY as Postfix writes them.
namespace notify {
inline constexpr unsigned kNever = 1, kSuccess = 2, kFailure = 4, kDelay = 8;
}
inline constexpr unsigned kRetFull = 1, kRetHeaders = 2;

struct Recipient {
  std::string address;
  std::string original;  // empty: not said
  std::string orcpt;     // "rfc822;address", not in xtext
  unsigned notify = 0;   // 0: not given
  bool done = false;     // delivered, returned, or cancelled by a filter
  /// Where its record begins: the file in defer/ names recipients by it.
  std::uint64_t offset = 0;
};

struct QueueFile {
  std::optional<WallTime> arrival;
  std::string sender;
  std::string full_name;
  std::string envid;  // not in xtext
  unsigned ret = 0;
  std::vector<Recipient> recipients;
  std::string filter;    // "transport:nexthop" of content_filter, FILTER
  std::string redirect;  // the one recipient in place of all
  std::string verp;      // delimiters
  bool warned = false;   // its sender got a notice of the delay
  unsigned smtputf8 = 0;
  std::optional<std::uint64_t> message_size;  // as the first record says; maildrop has none
  std::map<std::string, std::string, std::less<>> attributes;
  std::uint64_t content_lines = 0;
  std::uint64_t content_size = 0;  // with one byte for each line end

  /// Empty: not there.
  std::string_view attribute(std::string_view name) const;
};

/// Content as it comes: a part of a line, and whether the line ends with it.
using ContentSink = std::function<void(std::string_view part, bool line_ends)>;

/// Errors: FileError, with the place in the file.
Result<QueueFile> read_queue_file(std::string_view bytes, const ContentSink& content = {});

/// What defer/ID says: the reason why a recipient waits.
struct Reason {
  std::string recipient;
  std::uint64_t offset = 0;  // Recipient::offset; 0: not said
  std::string status;        // "4.4.1"
  std::string text;
};
/// At most kMaxReasons; of several for one recipient all, in the order of the file. What cannot be understood is passed
/// over: reasons are for people.
inline constexpr std::size_t kMaxReasons = 1'000'000;
std::vector<Reason> read_reasons(std::string_view text);

}  // namespace pen::postfix_queue
