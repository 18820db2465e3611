#pragma once
/// What Postfix's sendmail writes to postdrop and reads from it, for pendrop under that name.
///
/// Use:     print(postdrop_greeting(id));                    // it waits for this before it writes
///          auto message = read_postdrop(whole_input, arrival);
///          print(postdrop_end(PostdropStatus::ok));
/// Input:   records as in Postfix's queue files (lib/queue/postfix_queue/queue_file.h): sender and options, content,
///          recipients before or behind it. What only the mail system itself may set (a filter, another recipient in
///          place of all) is refused; what a client would have said is passed over.
/// Output:  names and values, each ended by a zero byte, and one more after the last.
/// Errors:  FileError; bad_envelope, with what is wrong for the user.
/// Pure; any thread.
#include <cstdint>
#include <string>
#include <string_view>

#include "lib/base/result.h"
#include "lib/base/time.h"
#include "lib/receive/submission/format.h"

namespace pen::pickup {

struct PostdropMessage {
  submission::Submission submission;  // without queue id and arrival
  std::string content;                // lines end in LF, as users give it
};
Result<PostdropMessage> read_postdrop(std::string_view input, WallTime now);

std::string postdrop_greeting(std::string_view queue_id);
/// As Postfix counts them: why a message was not taken, for sendmail to say.
enum class PostdropStatus : std::uint8_t { ok = 0, bad = 1, not_written = 2, too_large = 4 };
std::string postdrop_end(PostdropStatus status);

}  // namespace pen::pickup
