#include "lib/trust/dkim/arc_seal.h"

#include "lib/base/check.h"
#include "lib/base/text.h"

namespace pen::dkim {
namespace {

/// RFC 8617 section 4.1.2: results are likely to be deleted on the way, and the seals are signed by the seal.
bool never_signed(const std::string& name) {
  return iequals(name, "Authentication-Results") || iequals(name, kArcResultsName) || iequals(name, kArcMessageName) ||
         iequals(name, kArcSealName);
}

/// A whole field, with or without its last CRLF.
void add_line(std::string_view whole, std::string& out) {
  if (whole.ends_with("\r\n")) whole.remove_suffix(2);
  append_canonical(Form::relaxed, whole, out);
  out += "\r\n";
}

}  // namespace

SigningForm sealing_form(const SigningForm& own) {
  SigningForm out = own;
  out.canonicalization = {.header = Form::relaxed, .body = Form::relaxed};
  out.fields.emplace_back(kSignatureName);
  std::erase_if(out.fields, never_signed);
  std::erase_if(out.oversigned, never_signed);
  out.lifetime = seconds(0);
  return out;
}

ArcSealer::ArcSealer(const SigningForm& form, SignWith with, WallTime now)
    : form_(form), with_(std::move(with)), now_(now) {}

void ArcSealer::header(std::string_view text, std::string_view results, ArcVerdict verdict) {
  const ArcPlace place = ArcPlace::of(split_fields(text, Signer::kMostFields));
  PEN_CHECK(place.obstacle(verdict).empty());
  with_.instance = place.sets.size() + 1;
  signer_.emplace(form_, std::vector{with_}, now_);
  signer_->header(text);
  results_ = std::string(kArcResultsName) + ": i=" + std::to_string(with_.instance) + ";";
  results_ += results;
  if (verdict != ArcVerdict::fail)
    for (const auto& set : place.sets)
      for (const std::string_view field : set) add_line(field, older_);
  seal_ = {.instance = with_.instance,
           .algorithm = with_.key->algorithm(),
           .time = static_cast<std::uint64_t>(unix_seconds(now_)),
           .chain = std::string(verdict_word(verdict)),
           .domain = with_.domain,
           .selector = with_.selector,
           .signature = std::string(with_.key->signature_size(), '\0')};
  room_ = seal_.field().size() + 2 + signer_->room() + results_.size() + 2;
}

std::string ArcSealer::covered_by_seal(std::string message) {
  message_ = std::move(message);
  std::string out = older_;
  add_line(results_, out);
  add_line(message_, out);
  append_canonical(Form::relaxed, seal_.signed_part(), out);
  return out;
}

std::string ArcSealer::seal_digest(std::string message_signature) {
  Sha256 digest;
  digest.update(covered_by_seal(signer_->finish(std::vector{std::move(message_signature)})));
  return digest.finish();
}

std::string ArcSealer::finish() {
  const auto* key = dynamic_cast<const PrivateKey*>(with_.key.get());
  PEN_CHECK(key != nullptr, "a key that is elsewhere cannot seal here");
  return finish(key->sign(covered_by_seal(signer_->finish())));
}

std::string ArcSealer::finish(std::string seal_signature) {
  seal_.signature = std::move(seal_signature);
  std::string out = seal_.field() + "\r\n" + message_ + results_ + "\r\n";
  PEN_CHECK(out.size() == room_, "a set has another size than was foreseen");
  return out;
}

}  // namespace pen::dkim
