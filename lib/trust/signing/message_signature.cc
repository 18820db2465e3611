#include "lib/trust/signing/message_signature.h"

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

std::string author(const std::vector<dkim::FieldView>& fields, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    for (const auto& field : fields) {
      if (!iequals(field.name, name)) continue;
      const auto addresses = mail::parse_address_list(field.whole.substr(field.whole.find(':') + 1), 1);
      if (!addresses.empty()) return addresses.front().address;
    }
  }
  return {};
}

}  // namespace

bool MessageSignature::decide(std::string_view content, bool whole, bool lines_fit) {
  decided_ = true;
  const auto fields = dkim::split_fields(content, dkim::Signer::kMostFields);
  if (signing_ && decide_keys(content, fields, whole)) return true;
  return to_seal_ && !problem_ && decide_seal(content, fields, whole, lines_fit);
}

bool MessageSignature::decide_seal(std::string_view content, const std::vector<dkim::FieldView>& fields, bool whole,
                                   bool lines_fit) {
  const auto place = dkim::ArcPlace::of(fields);
  if (!whole || header_size(content, fields) > kMaxHeader)
    unsealed_ = "its header is too large";
  else if (place.text != to_seal_->chain)  // what filters of this host have done to a chain is not what was checked
    unsealed_ = "its chain has changed since it was checked";
  else if (!lines_fit)
    unsealed_ = kLongLine;
  else
    unsealed_ = place.obstacle(to_seal_->verdict);
  if (!unsealed_.empty()) return false;
  auto key = to_seal_->sealing->key();
  if (!key) {
    problem_ = std::move(key).error();
    return false;
  }
  with_.push_back(*std::move(key));
  seals_ = true;
  return true;
}

bool MessageSignature::decide_keys(std::string_view content, const std::vector<dkim::FieldView>& fields, bool whole) {
  const std::string from = author(fields, signing_->author_fields());
  if (from.empty()) {
    // An author may still come.
    if (!whole) problem_ = Error(dkim::DkimError::too_large, "header to be signed");
    return false;
  }
  auto keys = signing_->keys_for(from);
  if (!keys) {
    problem_ = std::move(keys).error().within("DKIM for " + printable(from, 100));
    return false;
  }
  if (keys->empty()) return false;
  if (!whole || header_size(content, fields) > kMaxHeader) {
    problem_ = Error(dkim::DkimError::too_large, "header to be signed");
    return false;
  }
  with_ = *std::move(keys);
  return true;
}

std::size_t MessageSignature::begin(std::string_view content, bool whole) {
  if (!decided_) decide(content, whole);
  begun_ = true;
  if (with_.empty()) return 0;
  const auto fields = dkim::split_fields(content, dkim::Signer::kMostFields);
  const std::size_t header = header_size(content, fields);
  if (seals_) {
    sealer_.emplace(to_seal_->sealing->form(), std::move(with_.front()), now_);
    sealer_->header(content.substr(0, header), to_seal_->results, to_seal_->verdict);
    sealer_->body(content.substr(header));
    return sealer_->room();
  }
  domain_ = with_.front().domain;
  signer_.emplace(signing_->form(), std::move(with_), now_);
  signer_->header(content.substr(0, header));
  signer_->body(content.substr(header));
  return signer_->room();
}

Result<std::string> MessageSignature::finish() {
  if (problem_) return fail(*problem_);
  if (sealer_) return sealer_->finish();
  return signer_ ? signer_->finish() : std::string();
}

bool MessageSignature::keys_elsewhere() const {
  if (problem_) return false;
  if (sealer_) return to_seal_->sealing->remote(sealer_->key());
  return signer_ && signing_->remote(*signer_);
}

async::Task<Result<std::string>> MessageSignature::finish_elsewhere(async::Until until) {
  if (sealer_) {
    const Sealing& by = *to_seal_->sealing;
    PEN_CO_TRY_ASSIGN(std::string message, co_await by.sign(sealer_->key(), sealer_->message_digest(), until));
    std::string digest = sealer_->seal_digest(std::move(message));
    PEN_CO_TRY_ASSIGN(std::string seal, co_await by.sign(sealer_->key(), std::move(digest), until));
    co_return sealer_->finish(std::move(seal));
  }
  std::vector<std::string> made;
  const auto digests = signer_->digests();
  for (std::size_t i = 0; i < digests.size(); ++i) {
    PEN_CO_TRY_ASSIGN(std::string signature, co_await signing_->sign(*signer_->keys()[i].key, digests[i], until));
    made.push_back(std::move(signature));
  }
  co_return signer_->finish(std::move(made));
}

}  // namespace pen::signing
