// DKIM-Signature: fields: what is read, written and read again is the same; a message with any header is checked.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "lib/base/check.h"
#include "lib/trust/dkim/arc.h"
#include "lib/trust/dkim/arc_seal.h"
#include "lib/trust/dkim/signature.h"
#include "lib/trust/dkim/verify.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pen;
  const std::string input(reinterpret_cast<const char*>(data), size);
  if (const auto s = dkim::Signature::parse(input); s && s->algorithm) {
    const std::string field = s->field();
    const auto again = dkim::Signature::parse(std::string_view(field).substr(field.find(':') + 1));
    PEN_CHECK(again.has_value(), "what was written cannot be read");
    PEN_CHECK(again->signature == s->signature && again->body_digest == s->body_digest && again->fields == s->fields &&
                  again->domain == s->domain && again->identity == s->identity && again->expires == s->expires,
              "something was lost");
    PEN_CHECK(dkim::without_signature(field) == s->signed_part(), "b= is not what was taken out");
  }
  // A whole field, and the input as a header.
  const std::string whole = "DKIM-Signature: " + input;
  PEN_CHECK(dkim::without_signature(whole).size() <= whole.size(), "it grows");
  const std::string header = whole + "\r\n" + input + "\r\nFrom: a@b.example\r\n";
  dkim::Verifier verifier(WallTime(seconds(1700000000)));
  verifier.header(header);
  verifier.body(input);
  std::map<std::string, dkim::KeyAnswer> answers;
  for (const auto& name : verifier.wanted())
    answers[name] = {dkim::KeyAnswer::State::found,
                     {"v=DKIM1; k=ed25519; p=11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=", input}};
  const auto outcomes = verifier.results(answers);
  PEN_CHECK(outcomes.size() <= dkim::Verifier::kMostSignatures, "too many");
  const std::string sealed = "ARC-Seal: " + input + "\r\nFrom: a@b.example\r\n";
  dkim::ArcChain chain(dkim::split_fields(sealed, 100), WallTime(seconds(1700000000)));
  chain.body(input);
  PEN_CHECK(chain.wanted().size() <= dkim::ArcChain::kMostSets + 1, "too many keys");
  PEN_CHECK(chain.result(answers).verdict != dkim::ArcVerdict::pass, "nobody has sealed this");
  const auto place = dkim::ArcPlace::of(dkim::split_fields(sealed, dkim::Signer::kMostFields));
  PEN_CHECK(place.sets.size() <= dkim::ArcChain::kMostSets, "too many sets");
  if (place.obstacle(dkim::ArcVerdict::fail).empty()) {
    static const auto key = dkim::PrivateKey::generate(dkim::Algorithm::ed25519_sha256);
    static const dkim::SigningForm form = dkim::sealing_form({});
    dkim::ArcSealer sealer(form, {.key = key, .domain = "b.example", .selector = "s"}, WallTime(seconds(1700000000)));
    sealer.header(sealed, " mx; none", dkim::ArcVerdict::fail);
    sealer.body(input);
    const std::string all = sealer.finish() + sealed;
    const auto after = dkim::ArcPlace::of(dkim::split_fields(all, dkim::Signer::kMostFields));
    PEN_CHECK(after.closed && after.sets.size() == place.sets.size() + 1, "the set is not the newest one");
  }
  (void)dkim::says_dmarc_pass(input, "b.example");
  for (const auto& o : outcomes) PEN_CHECK(o.verdict != dkim::Verdict::pass, "nobody has signed this");
  return 0;
}
