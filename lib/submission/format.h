#pragma once
/// A locally submitted message as bytes: the file in $queue_directory/maildrop, and what sendmail hands to pendrop.
///
/// File:    "PENDROP\n", u32 version, u32 length of the envelope (LE), encoded Submission, the content as the user gave
///          it, then the trailer: u64 length of the content, u64 XXH3-64 of everything before this number (LE),
///          "\nENDDROP". docs/submission.md has the worked example.
/// Pipe:    u32 length (LE) and the encoded Submission without queue id and arrival; pieces of content, each a u32
///          length and that many bytes; a length of 0 says that the message is whole.
/// Use:     writer: head(submission), Sum over everything, trailer(…); reader: parse_head(), Sum, parse_trailer().
/// Rules:   decode() checks every field (check()): what is in a Submission that was read can go into logs and
///          envelopes.
/// No I/O; any thread.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "lib/mail/envelope.h"

struct XXH3_state_s;

namespace pen::submission {

enum class FormatError {
  not_ours = 1,   // no such file
  other_version,  // of a newer or older suite
  damaged,        // lengths or checksum do not fit
  bad_envelope,   // does not decode, or a field is not permitted
};
std::string_view error_module(FormatError);
std::string_view describe(FormatError);

struct Submission {
  std::string queue_id;   // pendrop's
  WallTime arrival{};     // pendrop's
  std::string sender;     // external form; "": the null sender
  std::string full_name;  // for a From: that is made up; may be empty
  std::vector<mail::Recipient> recipients;
  std::string envid;
  mail::Ret ret = mail::Ret::unspecified;
  mail::BodyType body_type = mail::BodyType::unspecified;
  bool probe = false;     // no message: the sender is to be told what would come of one
  bool smtputf8 = false;  // it was declared so; addresses say it by themselves
  mail::RequireTls requiretls = mail::RequireTls::unspecified;
  bool gateway = false;  // from elsewhere: its header stays as it is
  bool traced = false;   // the sender is to be told of the first try; not of a probe
  template <class Visitor>
  void visit_fields(Visitor&& visitor) {
    visitor(queue_id, arrival, sender, full_name, recipients, envid, ret, body_type, probe, smtputf8, requiretls,
            gateway, traced);
  }
  /// What came later is only written where it says something: a reader that does not know it takes all the rest.
  template <class Visitor>
  void visit_fields(Visitor&& visitor) const {
    visitor(queue_id, arrival, sender, full_name, recipients, envid, ret, body_type);
    const bool asks_tls = requiretls != mail::RequireTls::unspecified;
    if (probe || smtputf8 || asks_tls || gateway || traced) visitor(probe);
    if (smtputf8 || asks_tls || gateway || traced) visitor(smtputf8);
    if (asks_tls || gateway || traced) visitor(requiretls);
    if (gateway || traced) visitor(gateway);
    if (traced) visitor(traced);
  }
  bool operator==(const Submission&) const = default;
};

inline constexpr std::uint32_t kVersion = 1;
// what qmgr takes from SMTP clients in one message is far below both
inline constexpr std::size_t kMaxRecipients = 50000;
inline constexpr std::size_t kMaxEnvelope = 8U << 20;
inline constexpr std::size_t kMaxFullName = 500;
inline constexpr std::size_t kPrefixSize = 16;  // up to the envelope
inline constexpr std::size_t kTrailerSize = 24;
inline constexpr std::size_t kMaxPiece = 64 * 1024;  // of content, on the pipe

/// What is wrong with it, for the user; empty: nothing. with_id: queue id and arrival must be there.
std::string check(const Submission& submission, bool with_id);

/// The bytes before the content.
std::string head(const Submission& submission);
/// How many bytes head() made, from its first kPrefixSize ones. Errors: not_ours, other_version, damaged.
Result<std::size_t> head_size(std::string_view prefix);
/// All of it. Errors: as above, bad_envelope.
Result<Submission> parse_head(std::string_view bytes);
/// The encoded Submission alone. Errors: bad_envelope.
Result<Submission> decode_submission(std::string_view bytes, bool with_id);

/// The running checksum: over head, content and the trailer's length.
class Sum {
 public:
  Sum();
  ~Sum();
  Sum(Sum&&) noexcept;
  Sum& operator=(Sum&&) noexcept;
  void add(std::string_view bytes);
  std::uint64_t value() const;

 private:
  struct Free {
    void operator()(XXH3_state_s* state) const;
  };
  std::unique_ptr<XXH3_state_s, Free> state_;
};

/// `sum` has seen head and content.
std::string trailer(std::uint64_t content_size, Sum& sum);
struct Trailer {
  std::uint64_t content_size = 0, sum = 0;
};
/// Errors: damaged. Whether the sum is right is for sum_fits().
Result<Trailer> parse_trailer(std::string_view bytes);
bool sum_fits(const Trailer& trailer, Sum& sum);

}  // namespace pen::submission
