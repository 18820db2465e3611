#include "lib/trust/dkim/sign.h"

#include <algorithm>

#include "lib/base/check.h"
#include "lib/base/text.h"

namespace pen::dkim {
namespace {

constexpr std::size_t kDigestSize = 32;

}  // namespace

Signer::Signer(const SigningForm& form, std::vector<SignWith> keys, WallTime now)
    : form_(form),
      keys_(std::move(keys)),
      header_form_(form.canonicalization.header),
      body_(form.canonicalization.body) {
  for (const auto& with : keys_) {
    Signature s;
    s.algorithm = with.key->algorithm();
    s.canonicalization = form.canonicalization;
    s.domain = with.domain;
    s.selector = with.selector;
    s.identity = with.identity;
    s.instance = with.instance;
    s.time = static_cast<std::uint64_t>(unix_seconds(now));
    if (form.lifetime.count() > 0) s.expires = *s.time + static_cast<std::uint64_t>(form.lifetime.count());
    signatures_.push_back(std::move(s));
  }
}

void Signer::header(std::string_view text) {
  const auto fields = split_fields(text, kMostFields);
  std::vector<std::string> names;
  const auto take = [&](const std::string& name, bool once_more) {
    if (std::ranges::any_of(names, [&](const std::string& n) { return iequals(n, name); })) return;
    std::size_t count = 0;
    for (auto field = fields.rbegin(); field != fields.rend() && count < kMostInstances; ++field) {
      if (!iequals(field->name, name)) continue;
      append_canonical(header_form_, field->whole, covered_);
      covered_ += "\r\n";
      ++count;
    }
    names.insert(names.end(), count + (once_more ? 1 : 0), name);
  };
  const auto oversigned = [&](const std::string& name) {
    return std::ranges::any_of(form_.oversigned, [&](const std::string& n) { return iequals(n, name); });
  };
  for (const auto& name : form_.fields) take(name, oversigned(name));
  for (const auto& name : form_.oversigned) take(name, true);
  for (auto& s : signatures_) {
    s.fields = names;
    s.body_digest.assign(kDigestSize, '\0');
    s.signature.assign(keys_[static_cast<std::size_t>(&s - signatures_.data())].key->signature_size(), '\0');
    room_ += s.field().size() + 2;
  }
}

void Signer::close_body() {
  if (closed_) return;
  closed_ = true;
  body_.finish([this](std::string_view part) { digest_.update(part); });
  const std::string digest = digest_.finish();
  for (Signature& s : signatures_) s.body_digest = digest;
}

std::string Signer::covered_by(const Signature& signature) {
  std::string text = covered_;
  append_canonical(header_form_, signature.signed_part(), text);
  return text;
}

std::vector<std::string> Signer::digests() {
  close_body();
  std::vector<std::string> out;
  for (const Signature& s : signatures_) {
    Sha256 digest;
    digest.update(covered_by(s));
    out.push_back(digest.finish());
  }
  return out;
}

std::string Signer::finish() {
  close_body();
  std::vector<std::string> made;
  for (std::size_t i = 0; i < signatures_.size(); ++i) {
    const auto* key = dynamic_cast<const PrivateKey*>(keys_[i].key.get());
    PEN_CHECK(key != nullptr, "a key that is elsewhere cannot sign here");
    made.push_back(key->sign(covered_by(signatures_[i])));
  }
  return finish(std::move(made));
}

std::string Signer::finish(std::vector<std::string> signatures) {
  PEN_CHECK(closed_ && signatures.size() == signatures_.size());
  std::string out;
  for (std::size_t i = 0; i < signatures_.size(); ++i) {
    signatures_[i].signature = std::move(signatures[i]);
    out += signatures_[i].field();
    out += "\r\n";
  }
  PEN_CHECK(out.size() == room_, "signatures have another size than was foreseen");
  return out;
}

}  // namespace pen::dkim
