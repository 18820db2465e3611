#pragma once
/// The bytes of a locally submitted message: the file in $queue_directory/maildrop, and the pipe from sendmail to
/// pendrop.
///
/// File:    "PENDROP\n", u32 version, u32 length of the envelope (LE), encoded Submission, the content as the user gave
///          it, then the trailer: u64 length of the content, u64 XXH3-64 of everything before this number (LE),
///          "\nENDDROP". docs/submission.md has the worked example.
/// Pipe:    u32 length (LE) and the encoded Submission without queue id and arrival; pieces of content, each a u32
///          length and that many bytes; a length of 0 says that the message is complete.
/// Use:     writer: head(submission), Sum over everything, trailer(…); reader: parse_head(), Sum, parse_trailer().
/// Rules:   decoding checks every field (check()), so that the fields of a Submission can go into logs and envelopes.
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
  not_ours = 1,   // not a file of this kind
  other_version,  // of a newer or older suite
  damaged,        // a length or the checksum does not match
  bad_envelope,   // cannot be decoded, or a field is not permitted
};
std::string_view error_module(FormatError);
std::string_view describe(FormatError);

/// What a user submits. Of the facts, client and body are not sent. pendrop sets arrival; smtputf8 is what the sender
/// declared, and addresses may imply it as well.
struct Submission : mail::MessageFacts {
  std::string queue_id;   // set by pendrop
  std::string full_name;  // for a From: field that is made here; may be empty
  std::vector<mail::Recipient> recipients;
  bool gateway = false;  // from elsewhere: its header stays unchanged
  // Set by pickup in what came over its socket, where the file is its own: the submitter's uid and 1. 0: the file's
  // owner is the submitter.
  std::uint64_t submitter = 0;

  /// The purpose travels as two flags. check() refuses both at once.
  static constexpr auto kProbeAndTraced = static_cast<mail::Purpose>(3);
  template <class Visitor>
  void visit_fields(Visitor&& visitor) {
    bool probe = false, traced = false;
    visitor(queue_id, arrival, sender, full_name, recipients, envid, ret, body_type, probe, smtputf8, requiretls,
            gateway, traced, verp, submitter);
    purpose = probe && traced ? kProbeAndTraced
              : probe         ? mail::Purpose::probe
              : traced        ? mail::Purpose::traced
                              : mail::Purpose::mail;
  }
  /// Fields of later versions are written only if they are set: a reader that does not know them can read all other
  /// messages.
  template <class Visitor>
  void visit_fields(Visitor&& visitor) const {
    visitor(queue_id, arrival, sender, full_name, recipients, envid, ret, body_type);
    const bool probe = purpose == mail::Purpose::probe || purpose == kProbeAndTraced;
    const bool traced = purpose == mail::Purpose::traced || purpose == kProbeAndTraced;
    const bool asks_tls = requiretls != mail::RequireTls::unspecified;
    const bool other = submitter != 0;
    const bool has_verp = other || !verp.empty();
    if (probe || smtputf8 || asks_tls || gateway || traced || has_verp) visitor(probe);
    if (smtputf8 || asks_tls || gateway || traced || has_verp) visitor(smtputf8);
    if (asks_tls || gateway || traced || has_verp) visitor(requiretls);
    if (gateway || traced || has_verp) visitor(gateway);
    if (traced || has_verp) visitor(traced);
    if (has_verp) visitor(verp);
    if (other) visitor(submitter);
  }
  bool operator==(const Submission&) const = default;
};

inline constexpr std::uint32_t kVersion = 1;
// Both are far above what qmgr accepts from SMTP clients in one message.
inline constexpr std::size_t kMaxRecipients = 50000;
inline constexpr std::size_t kMaxEnvelope = 8U << 20;
inline constexpr std::size_t kMaxFullName = 500;
inline constexpr std::size_t kPrefixSize = 16;  // bytes before the envelope
inline constexpr std::size_t kTrailerSize = 24;
inline constexpr std::size_t kMaxPiece = 64 * 1024;  // bytes of content in one piece on the pipe

/// What is wrong with it, for the user; empty: nothing. with_id: requires queue id and arrival.
std::string check(const Submission& submission, bool with_id);

/// The bytes before the content.
std::string head(const Submission& submission);
/// The length of head(), read from its first kPrefixSize bytes. Errors: not_ours, other_version, damaged.
Result<std::size_t> head_size(std::string_view prefix);
/// Parses the whole head. Errors: as above, bad_envelope.
Result<Submission> parse_head(std::string_view bytes);
/// Decodes a Submission alone. Errors: bad_envelope.
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

/// `sum` must have seen head and content.
std::string trailer(std::uint64_t content_size, Sum& sum);
struct Trailer {
  std::uint64_t content_size = 0, sum = 0;
};
/// Errors: damaged. sum_fits() checks the sum.
Result<Trailer> parse_trailer(std::string_view bytes);
bool sum_fits(const Trailer& trailer, Sum& sum);

}  // namespace pen::submission
