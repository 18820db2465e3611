#include "lib/trust/dkim/arc.h"

#include <algorithm>

#include "lib/base/base64.h"
#include "lib/base/text.h"
#include "lib/mail/address.h"
#include "lib/trust/dkim/tag_list.h"

namespace pen::dkim {
namespace {

std::string_view value_of(std::string_view whole) { return whole.substr(whole.find(':') + 1); }

std::optional<std::size_t> instance_of(std::string_view text) {
  const auto number = text.size() <= 3 ? parse_unsigned(text) : std::nullopt;
  if (!number || *number == 0 || *number > ArcChain::kMostSets) return std::nullopt;
  return static_cast<std::size_t>(*number);
}

/// Skips blanks and comments.
void skip_cfws(std::string_view& text) {
  int depth = 0;
  while (!text.empty() && (depth > 0 || text.front() == '(' || ascii_space(text.front()))) {
    const char c = text.front();
    if (c == '(') ++depth;
    if (c == ')') --depth;
    text.remove_prefix(std::min<std::size_t>(c == '\\' ? 2 : 1, text.size()));
  }
}

/// The number in front of results: "i=1; server; results", with comments anywhere (RFC 8617 section 4.2.1).
std::optional<std::size_t> instance_of_results(std::string_view value) {
  for (const char c : {'i', '='}) {
    skip_cfws(value);
    if (!value.starts_with(c)) return std::nullopt;
    value.remove_prefix(1);
  }
  skip_cfws(value);
  const std::size_t size = std::min(value.find_first_not_of("0123456789"), value.size());
  const auto number = instance_of(value.substr(0, size));
  value.remove_prefix(size);
  skip_cfws(value);
  return value.empty() || value.front() == ';' ? number : std::nullopt;
}

/// The number of the set that a field belongs to.
std::optional<std::size_t> instance_of(const FieldView& field) {
  const auto value = value_of(field.whole);
  if (iequals(field.name, kArcResultsName)) return instance_of_results(value);
  const auto tags = TagList::parse(value);
  const auto* text = tags ? tags->find("i") : nullptr;
  return text != nullptr ? instance_of(*text) : std::nullopt;
}

/// The parts of a set, in the order in which a seal covers them.
enum Part : std::uint8_t { kResults, kMessage, kSeal };
std::optional<Part> part_of(const FieldView& field) {
  if (iequals(field.name, kArcResultsName)) return kResults;
  if (iequals(field.name, kArcMessageName)) return kMessage;
  if (iequals(field.name, kArcSealName)) return kSeal;
  return std::nullopt;
}

/// A message signature is a DKIM signature without v=, and its i= is the number of the set.
Result<Signature> parse_message(std::string_view value) {
  std::string text = "v=1";
  for (std::string_view rest = value; !rest.empty();) {
    const auto end = std::min(rest.find(';'), rest.size());
    const auto tag = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    const auto name = without_blanks(tag.substr(0, tag.find('=')));
    if (name == "v") return fail(DkimError::syntax, "v=");
    if (name == "i" || without_blanks(tag).empty()) continue;
    text += ';';
    text += tag;
  }
  return Signature::parse(text);
}

struct Key {
  std::optional<PublicKey> key;
  bool unknown = false;
  std::string problem;
};

Key key_of(const std::map<std::string, KeyAnswer>& answers, const std::string& selector, const std::string& domain,
           Algorithm algorithm) {
  Key out;
  const auto answer = answers.find(key_name(selector, domain));
  if (answer == answers.end() || answer->second.state == KeyAnswer::State::unknown) {
    out.unknown = true;
    return out;
  }
  Result<KeyRecord> record = fail(DkimError::syntax, "no key in DNS");
  for (const auto& text : answer->second.texts)
    if (!record) record = KeyRecord::parse(text);
  if (!record) {
    out.problem = record.error().message();
    return out;
  }
  const bool rsa = algorithm == Algorithm::rsa_sha256;
  if (record->key.empty() || (record->type == KeyRecord::Type::rsa) != rsa || !record->sha256 || !record->for_mail) {
    out.problem = "the key is revoked or for something else";
    return out;
  }
  auto key = PublicKey::of(*record);
  if (key)
    out.key.emplace(*std::move(key));
  else
    out.problem = key.error().message();
  return out;
}

}  // namespace

std::string_view verdict_word(ArcVerdict verdict) {
  switch (verdict) {
    case ArcVerdict::none:
      return "none";
    case ArcVerdict::pass:
      return "pass";
    case ArcVerdict::fail:
      return "fail";
    case ArcVerdict::temperror:
      return "temperror";
  }
  return "unknown";
}

ArcPlace ArcPlace::of(const std::vector<FieldView>& fields) {
  ArcPlace out;
  for (const auto& field : fields) {
    const auto part = part_of(field);
    if (!part) continue;
    append_canonical(Form::relaxed, field.whole, out.text);
    out.text += "\r\n";
    const auto instance = instance_of(field);
    if (!instance) continue;
    if (out.sets.size() < *instance) out.sets.resize(*instance);
    out.sets[*instance - 1][*part] = field.whole;
  }
  if (!out.sets.empty()) {
    const auto tags = TagList::parse(value_of(out.sets.back()[kSeal]));
    const auto* chain = tags ? tags->find("cv") : nullptr;
    out.closed = chain != nullptr && iequals(*chain, verdict_word(ArcVerdict::fail));
  }
  return out;
}

std::string_view ArcPlace::obstacle(ArcVerdict verdict) const {
  if (closed) return "the last seal says that the chain is broken";
  if (verdict == ArcVerdict::temperror) return "DNS does not say whether the chain holds";
  if (sets.size() >= ArcChain::kMostSets) return "the chain is as long as it may be";
  return {};
}

ArcChain::ArcChain(const std::vector<FieldView>& fields, WallTime now) : fields_(fields) {
  problem_ = arrange();
  if (problem_.empty() && !sets_.empty()) problem_ = read_seals(now);
}

std::string ArcChain::arrange() {
  for (const auto& field : fields_) {
    const auto part = part_of(field);
    if (!part) continue;
    const auto instance = instance_of(field);
    if (!instance) return "a field without a number that can be";
    if (sets_.size() < *instance) sets_.resize(*instance);
    Set& set = sets_[*instance - 1];
    std::string_view& place = *part == kResults ? set.results : *part == kMessage ? set.message : set.seal;
    if (!place.empty()) return "a field twice";
    place = field.whole;
  }
  const bool whole = std::ranges::all_of(
      sets_, [](const Set& set) { return !set.results.empty() && !set.message.empty() && !set.seal.empty(); });
  return whole ? "" : "a field is missing";
}

std::string ArcChain::read_seals(WallTime now) {
  for (std::size_t i = 0; i < sets_.size(); ++i) {
    const auto text = value_of(sets_[i].seal);
    if (text.size() > Signature::kMaxSize) return "a seal is too large";
    const auto tags = TagList::parse(text);
    if (!tags) return "a seal: " + tags.error().message();
    // RFC 8617 section 4.1.3: what a seal covers is fixed.
    if (tags->find("h") != nullptr) return "a seal with h=";
    Seal& seal = sets_[i].sealed;
    for (const auto& [name, into] : {std::pair{"d", &seal.domain}, {"s", &seal.selector}, {"cv", &seal.chain}}) {
      const auto* value = tags->find(name);
      if (value == nullptr || value->empty()) return "a seal without " + std::string(name) + "=";
      *into = *value;
    }
    // As those of signatures: names to ask DNS for, and to show.
    constexpr bool kUtf8 = true;
    if (!mail::valid_hostname(seal.domain, kUtf8)) return "a seal with a name that cannot be: d=";
    if (!mail::valid_hostname("s." + seal.selector, kUtf8)) return "a seal with a name that cannot be: s=";
    const auto* algorithm = tags->find("a");
    for (const auto known : {Algorithm::rsa_sha256, Algorithm::ed25519_sha256})
      if (algorithm != nullptr && iequals(*algorithm, algorithm_name(known))) seal.algorithm = known;
    if (!seal.algorithm) return "the algorithm of a seal is not accepted";
    const auto* signature = tags->find("b");
    auto bytes = signature != nullptr ? base64_decode(without_blanks(*signature)) : std::nullopt;
    if (!bytes) return "a seal without b=";
    seal.signature = *std::move(bytes);
    if (!iequals(seal.chain, i == 0 ? "none" : "pass")) return "a seal says that the chain was broken before";
  }
  auto message = parse_message(value_of(sets_.back().message));
  if (!message) return "the message signature: " + message.error().message();
  newest_ = *std::move(message);
  if (!newest_.algorithm) return "the algorithm of the message signature is not accepted";
  if (newest_.partial) return "l= leaves a part of the body unsigned";
  if (std::ranges::any_of(newest_.fields, [](const auto& name) { return iequals(name, kArcSealName); }))
    return "the message signature covers a seal";
  if (newest_.expires && *newest_.expires < static_cast<std::uint64_t>(unix_seconds(now))) return "expired";
  form_.emplace(newest_.canonicalization.body);
  return {};
}

void ArcChain::body(std::string_view piece) {
  if (form_) form_->feed(piece, [&](std::string_view part) { digest_.update(part); });
}

std::vector<std::string> ArcChain::wanted() const {
  std::vector<std::string> names;
  if (!form_) return names;
  const auto add = [&](std::string name) {
    if (std::ranges::find(names, name) == names.end()) names.push_back(std::move(name));
  };
  add(key_name(newest_.selector, newest_.domain));
  for (const auto& set : sets_) add(key_name(set.sealed.selector, set.sealed.domain));
  return names;
}

std::string ArcChain::covered_by_message() const {
  const Form form = newest_.canonicalization.header;
  std::string out;
  FieldIndex(fields_).append(form, newest_.fields, sets_.back().message.data(), out);
  append_canonical(form, without_signature(sets_.back().message), out);
  return out;
}

std::vector<std::string> ArcChain::digests_of_seals() const {
  std::vector<std::string> out;
  Sha256 all;
  std::string text;
  const auto add = [](std::string_view canonical, Sha256& to) {
    to.update(canonical);
    to.update("\r\n");
  };
  const auto canonical = [&](std::string_view whole) -> std::string_view {
    text.clear();
    append_canonical(Form::relaxed, whole, text);
    return text;
  };
  for (const Set& set : sets_) {
    add(canonical(set.results), all);
    add(canonical(set.message), all);
    Sha256 here = all.copy();
    here.update(canonical(without_signature(set.seal)));
    out.push_back(here.finish());
    add(canonical(set.seal), all);
  }
  return out;
}

ArcOutcome ArcChain::result(const std::map<std::string, KeyAnswer>& answers) {
  ArcOutcome out;
  if (empty()) return out;
  const auto end = [&](ArcVerdict verdict, std::string reason) {
    out.verdict = verdict;
    out.reason = std::move(reason);
    return out;
  };
  if (!problem_.empty()) return end(ArcVerdict::fail, problem_);
  out.sealer = sets_.back().sealed.domain;
  out.seen = value_of(sets_.back().results);
  form_->finish([&](std::string_view part) { digest_.update(part); });
  form_.reset();
  if (digest_.finish() != newest_.body_digest) return end(ArcVerdict::fail, "the body has changed");
  const auto holds = [&](const std::string& selector, const std::string& domain, Algorithm algorithm,
                         std::string_view signature, std::string_view digest, const std::string& what) {
    const Key key = key_of(answers, selector, domain, algorithm);
    if (key.unknown) (void)end(ArcVerdict::temperror, "no answer about a key from DNS");
    if (!key.problem.empty()) (void)end(ArcVerdict::fail, what + ": " + key.problem);
    if (!key.key) return false;
    if (!key.key->verifies_digest(digest, signature)) (void)end(ArcVerdict::fail, what + " is not for this header");
    return out.verdict == ArcVerdict::none;
  };
  Sha256 message;
  message.update(covered_by_message());
  if (!holds(newest_.selector, newest_.domain, *newest_.algorithm, newest_.signature, message.finish(),
             "the message signature"))
    return out;
  const std::vector<std::string> digests = digests_of_seals();
  for (std::size_t i = sets_.size(); i-- > 0;) {
    const Seal& seal = sets_[i].sealed;
    if (!holds(seal.selector, seal.domain, *seal.algorithm, seal.signature, digests[i],
               "seal " + std::to_string(i + 1)))
      return out;
  }
  out.verdict = ArcVerdict::pass;
  return out;
}

bool says_dmarc_pass(std::string_view value, std::string_view from) {
  // Results between semicolons, without comments; a quoted text is one word.
  std::vector<std::vector<std::string>> results(1);
  std::string word;
  const auto end_word = [&] {
    if (!word.empty()) results.back().push_back(std::exchange(word, {}));
  };
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < value.size(); ++i) {
    const char c = value[i];
    if (c == '\\' && (quoted || depth > 0)) {
      ++i;
    } else if (quoted) {
      quoted = c != '"';
    } else if (c == '(' || (c == ')' && depth > 0)) {
      depth += c == '(' ? 1 : -1;
      end_word();
    } else if (depth > 0) {
      continue;
    } else if (c == '"') {
      quoted = true;
      word += '"';
    } else if (c == ';') {
      end_word();
      results.emplace_back();
    } else if (ascii_space(c)) {
      end_word();
    } else {
      word += ascii_lower(c);
    }
  }
  end_word();
  if (results.size() < 3) return false;  // "i=1", the server, what it saw
  return std::ranges::any_of(results.begin() + 2, results.end(), [&](const auto& words) {
    if (words.empty() || words.front() != "dmarc=pass") return false;
    const auto named = std::ranges::find_if(words, [](const auto& w) { return w.starts_with("header.from="); });
    return named == words.end() || iequals(std::string_view(*named).substr(12), from);
  });
}

}  // namespace pen::dkim
