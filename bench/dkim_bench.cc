// Measures the processor time of DKIM signatures: the canonical forms alone, and whole messages with RSA and Ed25519.
//   dkim_bench [--size BYTES]     one line of JSON for each figure
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "bench/least_time.h"
#include "bench/sample_text.h"
#include "lib/base/base64.h"
#include "lib/trust/dkim/sign.h"
#include "lib/trust/dkim/verify.h"

using namespace pen;
using bench::lines_of_text;

namespace {

constexpr int kRounds = 7;
constexpr std::size_t kPiece = 64 * 1024;

/// For one of `count` pieces of work, in microseconds.
template <class Work>
double least(int count, Work work) {
  return bench::least_time(kRounds, count, work).count();
}

const std::string kHeader =
    "Received: from client.example.org (client.example.org [192.0.2.1])\r\n\tby mx.example.org (Penstock) with "
    "ESMTPSA\r\n"
    "From: Anna <anna@example.org>\r\nTo: Berta <berta@example.net>, Carl <carl@example.net>\r\n"
    "Subject: what is measured here\r\nDate: Sat, 21 Nov 2026 08:00:00 +0000\r\nMessage-ID: <1@example.org>\r\n"
    "MIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n";

std::string sign(const dkim::SigningForm& form, const std::shared_ptr<const dkim::PrivateKey>& key,
                 std::string_view body) {
  dkim::Signer signer(form, {{key, "example.org", "selector"}}, system_clock().wall_now());
  signer.header(kHeader);
  for (; !body.empty(); body.remove_prefix(std::min(kPiece, body.size()))) signer.body(body.substr(0, kPiece));
  return signer.finish();
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Measures the processor time of DKIM signatures.");
  std::size_t size = 4096;
  app.add_option("--size", size, "bytes of the body")->check(CLI::Range(1, 1 << 30));
  CLI11_PARSE(app, argc, argv)
  const std::string body = lines_of_text(size);
  const int count = static_cast<int>(std::max<std::size_t>(1, 4096 * 500 / size));
  for (const auto form : {dkim::Form::simple, dkim::Form::relaxed}) {
    std::size_t seen = 0;
    const double time = least(count, [&] {
      dkim::CanonicalBody canonical(form);
      canonical.feed(body, [&](std::string_view part) { seen += part.size(); });
      canonical.finish([&](std::string_view part) { seen += part.size(); });
    });
    fmt::print("{{\"figure\": \"canonical body, {}\", \"us\": {:.2f}, \"seen\": {}}}\n",
               form == dkim::Form::simple ? "simple" : "relaxed", time, seen);
  }
  const dkim::SigningForm usual;
  for (const auto algorithm : {dkim::Algorithm::rsa_sha256, dkim::Algorithm::ed25519_sha256}) {
    const auto key = dkim::PrivateKey::generate(algorithm);
    std::size_t signed_bytes = 0;
    const double time = least(count, [&] { signed_bytes += sign(usual, key, body).size(); });
    const double key_alone = least(count, [&] { signed_bytes += key->sign(kHeader).size(); });
    const std::string header = sign(usual, key, body) + kHeader;
    const std::string record = std::string(algorithm == dkim::Algorithm::rsa_sha256 ? "k=rsa; p=" : "k=ed25519; p=") +
                               base64_encode(key->public_bytes());
    const std::map<std::string, dkim::KeyAnswer> dns = {
        {"selector._domainkey.example.org", {dkim::KeyAnswer::State::found, {record}}}};
    bool pass = true;
    const double verifying = least(count, [&] {
      dkim::Verifier verifier(system_clock().wall_now());
      verifier.header(header);
      verifier.body(body);
      pass = pass && verifier.results(dns).at(0).verdict == dkim::Verdict::pass;
    });
    fmt::print(
        "{{\"figure\": \"{}\", \"bits\": {}, \"body\": {}, \"sign_us\": {:.1f}, \"key_alone_us\": {:.1f}, "
        "\"verify_us\": {:.1f}, \"pass\": {}}}\n",
        dkim::algorithm_name(algorithm), key->bits(), body.size(), time, key_alone, verifying, pass);
    if (!pass) return 1;
  }
  return 0;
}
