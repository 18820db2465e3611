#include "lib/receive/submission/format.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>

#include "lib/base/bytes.h"
#include "lib/base/check.h"
#include "lib/mail/address.h"
#include "lib/mail/queue_id.h"

namespace pen::submission {
namespace {

constexpr std::string_view kMagic = "PENDROP\n", kEnd = "\nENDDROP";

template <class T>
std::string number(T value) {
  std::byte raw[sizeof(T)];
  store_le(raw, value);
  return std::string(as_text(raw));
}
template <class T>
T number_at(std::string_view bytes, std::size_t at) {
  return load_le<T>(as_bytes(bytes).data() + at);
}

bool clean(std::string_view text) {
  return std::ranges::none_of(text, [](char c) { return static_cast<unsigned char>(c) < 32 || c == 127; });
}

}  // namespace

std::string_view error_module(FormatError) { return "submission"; }
std::string_view describe(FormatError e) {
  switch (e) {
    case FormatError::not_ours:
      return "not a submitted message";
    case FormatError::other_version:
      return "written by another version";
    case FormatError::damaged:
      return "damaged";
    case FormatError::bad_envelope:
      return "bad envelope";
  }
  return "?";
}

std::string check(const Submission& s, bool with_id) {
  if (with_id != !s.queue_id.empty() || (with_id && !mail::is_queue_id(s.queue_id))) return "bad queue id";
  if (s.recipients.empty()) return "no recipients";
  if (s.recipients.size() > kMaxRecipients) return fmt::format("more than {} recipients", kMaxRecipients);
  const auto address_fault = [](const std::string& a) -> const char* {
    if (a.size() > mail::kMaxPath) return "address too long";
    return clean(a) ? nullptr : "control character in an address";
  };
  if (const char* fault = address_fault(s.sender)) return fault;
  for (const auto& r : s.recipients) {
    if (r.address.empty()) return "empty recipient address";
    for (const std::string* a : {&r.address, &r.original, &r.orcpt})
      if (const char* fault = address_fault(*a)) return fault;
    const unsigned known = mail::notify::kSuccess | mail::notify::kFailure | mail::notify::kDelay;
    if (r.notify != mail::notify::kNever && (r.notify & ~known) != 0) return "bad NOTIFY";
  }
  if (s.purpose == Submission::kProbeAndTraced) return "a probe cannot be traced";
  if (s.full_name.size() > kMaxFullName || !clean(s.full_name)) return "bad full name";
  if (s.envid.size() > 100 || !clean(s.envid)) return "bad envelope id";
  if (s.ret > mail::Ret::headers || s.body_type > mail::BodyType::eight_bit_mime ||
      s.requiretls > mail::RequireTls::yes)
    return "bad option";
  // Any that verp_delimiter_filter may allow; letters and digits would make addresses that nobody can take apart.
  if (!s.verp.empty() && (s.verp.size() != 2 || s.verp.find_first_not_of("!#$%&'*+-/=?^_`{|}~.") != std::string::npos))
    return "bad delimiters of VERP";
  return {};
}

std::string head(const Submission& submission) {
  const std::string envelope = encode(submission);
  PEN_CHECK(envelope.size() <= kMaxEnvelope);
  return std::string(kMagic) + number(kVersion) + number(static_cast<std::uint32_t>(envelope.size())) + envelope;
}

Result<std::size_t> head_size(std::string_view prefix) {
  if (!prefix.starts_with(kMagic)) return fail(FormatError::not_ours);
  if (prefix.size() < kPrefixSize) return fail(FormatError::damaged, "head");
  if (const auto version = number_at<std::uint32_t>(prefix, 8); version != kVersion)
    return fail(FormatError::other_version, fmt::format("version {}", version));
  const std::size_t size = number_at<std::uint32_t>(prefix, 12);
  if (size > kMaxEnvelope) return fail(FormatError::damaged, "head");
  return kPrefixSize + size;
}

Result<Submission> parse_head(std::string_view bytes) {
  PEN_TRY_ASSIGN(const std::size_t size, head_size(bytes));
  if (bytes.size() != size) return fail(FormatError::damaged, "head");
  return decode_submission(bytes.substr(kPrefixSize), true);
}

Result<Submission> decode_submission(std::string_view bytes, bool with_id) {
  auto submission = decode<Submission>(bytes);
  if (!submission) return fail(FormatError::bad_envelope);
  if (auto fault = check(*submission, with_id); !fault.empty())
    return fail(FormatError::bad_envelope, std::move(fault));
  return *std::move(submission);
}

void Sum::Free::operator()(XXH3_state_s* state) const { XXH3_freeState(state); }
Sum::Sum() : state_(XXH3_createState()) {
  PEN_CHECK(state_ != nullptr);
  XXH3_64bits_reset(state_.get());
}
Sum::~Sum() = default;
Sum::Sum(Sum&&) noexcept = default;
Sum& Sum::operator=(Sum&&) noexcept = default;
void Sum::add(std::string_view bytes) { XXH3_64bits_update(state_.get(), bytes.data(), bytes.size()); }
std::uint64_t Sum::value() const { return XXH3_64bits_digest(state_.get()); }

std::string trailer(std::uint64_t content_size, Sum& sum) {
  std::string out = number(content_size);
  sum.add(out);
  return out + number(sum.value()) + std::string(kEnd);
}

Result<Trailer> parse_trailer(std::string_view bytes) {
  if (bytes.size() != kTrailerSize || !bytes.ends_with(kEnd)) return fail(FormatError::damaged, "trailer");
  return Trailer{number_at<std::uint64_t>(bytes, 0), number_at<std::uint64_t>(bytes, 8)};
}

bool sum_fits(const Trailer& trailer, Sum& sum) {
  sum.add(number(trailer.content_size));
  return sum.value() == trailer.sum;
}

}  // namespace pen::submission
