#include "lib/trust/dkim/verify.h"

#include <algorithm>

#include "lib/base/base64.h"
#include "lib/base/text.h"
#include "lib/mail/address.h"
#include "lib/trust/dkim/tag_list.h"

namespace pen::dkim {

std::string_view verdict_word(Verdict verdict) {
  switch (verdict) {
    case Verdict::pass:
      return "pass";
    case Verdict::fail:
      return "fail";
    case Verdict::policy:
      return "policy";
    case Verdict::neutral:
      return "neutral";
    case Verdict::temperror:
      return "temperror";
    case Verdict::permerror:
      return "permerror";
  }
  return "unknown";
}

void Verifier::header(std::string_view text) {
  fields_ = split_fields(text, kMostFields);
  for (const auto& field : fields_) {
    if (!iequals(field.name, kSignatureName)) continue;
    if (signatures_.size() == kMostSignatures) break;
    Checked checked{.whole = field.whole, .signature = {}, .outcome = {}};
    const auto decide = [&](Verdict verdict, std::string reason) {
      checked.decided = true;
      checked.outcome.verdict = verdict;
      checked.outcome.reason = std::move(reason);
    };
    auto parsed = Signature::parse(field.whole.substr(field.whole.find(':') + 1));
    if (!parsed) {
      decide(parsed.error().is(DkimError::unsupported) ? Verdict::neutral : Verdict::permerror,
             parsed.error().message());
      signatures_.push_back(std::move(checked));
      continue;
    }
    checked.signature = *std::move(parsed);
    const Signature& s = checked.signature;
    Outcome& o = checked.outcome;
    o.domain = s.domain;
    o.selector = s.selector;
    o.identity = s.identity.empty() ? "@" + s.domain : s.identity;
    o.algorithm = s.algorithm_text;
    o.tag = base64_encode(s.signature).substr(0, 8);
    if (!s.algorithm)
      decide(Verdict::permerror, "algorithm " + printable(s.algorithm_text, 40) + " is not accepted");
    else if (s.partial)
      decide(Verdict::policy, "l= leaves a part of the body unsigned");
    else if (s.expires && *s.expires < static_cast<std::uint64_t>(unix_seconds(now_)))
      decide(Verdict::fail, "expired");
    else if (auto& body = bodies_[static_cast<std::size_t>(s.canonicalization.body)]; !body)
      body.emplace(CanonicalBody(s.canonicalization.body), Sha256(), std::string());
    signatures_.push_back(std::move(checked));
  }
}

void Verifier::body(std::string_view piece) {
  for (auto& body : bodies_)
    if (body) body->form.feed(piece, [&](std::string_view part) { body->digest.update(part); });
}

std::vector<std::string> Verifier::wanted() const {
  std::vector<std::string> names;
  for (const auto& checked : signatures_) {
    if (checked.decided) continue;
    std::string name = key_name(checked.signature.selector, checked.signature.domain);
    if (std::ranges::find(names, name) == names.end()) names.push_back(std::move(name));
  }
  return names;
}

std::string Verifier::covered(const Checked& checked) {
  const Form form = checked.signature.canonicalization.header;
  std::string out;
  if (!index_) index_.emplace(fields_);
  index_->append(form, checked.signature.fields, checked.whole.data(), out);
  append_canonical(form, without_signature(checked.whole), out);
  return out;
}

void Verifier::judge(Checked& checked, const KeyAnswer& answer) {
  const Signature& s = checked.signature;
  Outcome& o = checked.outcome;
  const auto decide = [&](Verdict verdict, std::string reason) {
    o.verdict = verdict;
    o.reason = std::move(reason);
  };
  if (answer.state == KeyAnswer::State::unknown) return decide(Verdict::temperror, "no answer about the key from DNS");
  if (answer.state == KeyAnswer::State::missing) return decide(Verdict::permerror, "no key in DNS");
  // Several records are not foreseen: the first that can be read is the key.
  Result<KeyRecord> record = fail(DkimError::syntax, "no key record");
  for (const auto& text : answer.texts)
    if (!record) record = KeyRecord::parse(text);
  if (!record) return decide(Verdict::permerror, "key record: " + record.error().message());
  o.testing = record->testing;
  if (record->key.empty()) return decide(Verdict::permerror, "the key is revoked");
  const bool rsa = *s.algorithm == Algorithm::rsa_sha256;
  if ((record->type == KeyRecord::Type::rsa) != rsa) return decide(Verdict::permerror, "the key is of another type");
  if (!record->sha256) return decide(Verdict::permerror, "the key is not for SHA-256");
  if (!record->for_mail) return decide(Verdict::permerror, "the key is not for mail");
  if (record->same_domain && !iequals(mail::domain_part(o.identity), s.domain))
    return decide(Verdict::permerror, "the key is not for sub-domains");
  const auto key = PublicKey::of(*record);
  if (!key)
    return decide(key.error().is(DkimError::bad_key) ? Verdict::permerror : Verdict::policy, key.error().message());
  if (s.body_digest != bodies_[static_cast<std::size_t>(s.canonicalization.body)]->value)
    return decide(Verdict::fail, "the body has changed");
  if (!key->verifies(covered(checked), s.signature))
    return decide(Verdict::fail, "the signature is not for this header");
  decide(Verdict::pass, {});
}

std::vector<Outcome> Verifier::results(const std::map<std::string, KeyAnswer>& answers) {
  for (auto& body : bodies_) {
    if (!body) continue;
    body->form.finish([&](std::string_view part) { body->digest.update(part); });
    body->value = body->digest.finish();
  }
  std::vector<Outcome> out;
  for (auto& checked : signatures_) {
    if (!checked.decided) {
      const auto answer = answers.find(key_name(checked.signature.selector, checked.signature.domain));
      judge(checked, answer == answers.end() ? KeyAnswer{} : answer->second);
    }
    out.push_back(checked.outcome);
  }
  return out;
}

}  // namespace pen::dkim
