#include "lib/signing/message_signature.h"

#include "lib/base/text.h"
#include "lib/mail/address.h"

namespace pen::signing {
namespace {

/// The bytes of the header, with the empty line.
std::size_t header_size(std::string_view content, const std::vector<dkim::FieldView>& fields) {
  if (fields.empty()) return content.starts_with("\r\n") ? 2 : 0;
  const auto& last = fields.back().whole;
  auto end = static_cast<std::size_t>(last.data() + last.size() - content.data());
  for (int line = 0; line < 2; ++line)
    if (content.substr(end).starts_with("\r\n")) end += 2;
  return end;
}

std::string author(const std::vector<dkim::FieldView>& fields) {
  for (const auto& field : fields) {
    if (!iequals(field.name, "from")) continue;
    const auto addresses = mail::parse_address_list(field.whole.substr(field.whole.find(':') + 1), 1);
    if (!addresses.empty()) return addresses.front().address;
  }
  return {};
}

}  // namespace

std::size_t MessageSignature::begin(std::string_view content, bool whole) {
  begun_ = true;
  const auto fields = dkim::split_fields(content, dkim::Signer::kMostFields);
  const std::size_t header = header_size(content, fields);
  const std::string from = author(fields);
  if (from.empty()) {
    // An author may still come.
    if (!whole) problem_ = Error(dkim::DkimError::too_large, "header to be signed");
    return 0;
  }
  auto keys = signing_->keys_for(from);
  if (!keys) {
    problem_ = std::move(keys).error().within("DKIM for " + printable(from, 100));
    return 0;
  }
  if (keys->empty()) return 0;
  if (!whole || header > kMaxHeader) {
    problem_ = Error(dkim::DkimError::too_large, "header to be signed");
    return 0;
  }
  signer_.emplace(signing_->form(), *std::move(keys), now_);
  signer_->header(content.substr(0, header));
  signer_->body(content.substr(header));
  return signer_->room();
}

Result<std::string> MessageSignature::finish() {
  if (problem_) return fail(*problem_);
  return signer_ ? signer_->finish() : std::string();
}

bool MessageSignature::keys_elsewhere() const { return !problem_ && signer_ && signing_->remote(*signer_); }

async::Task<Result<std::string>> MessageSignature::finish_elsewhere(async::Until until) {
  std::vector<std::string> made;
  const auto digests = signer_->digests();
  for (std::size_t i = 0; i < digests.size(); ++i) {
    PEN_CO_TRY_ASSIGN(std::string signature, co_await signing_->sign(*signer_->keys()[i].key, digests[i], until));
    made.push_back(std::move(signature));
  }
  co_return signer_->finish(std::move(made));
}

}  // namespace pen::signing
