#include "penevents/webhook.h"

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

namespace pen::penevents {
namespace {

BOOST_AUTO_TEST_SUITE(webhook)

BOOST_AUTO_TEST_CASE(a_batch_is_a_json_array_named_by_its_first_and_last_event) {
  const Batch batch = make_batch("{\"id\":7,\"a\":1}\n{\"id\":8,\"a\":2}\n");
  BOOST_TEST(batch.id == "7-8");
  BOOST_TEST(batch.events == 2U);
  const auto json = nlohmann::json::parse(batch.body);
  BOOST_TEST(json.size() == 2U);
  BOOST_TEST(json[1]["a"] == 2);
}

// RFC 4231 has vectors for HMAC itself (lib/base/digest); this one is of Python's hmac over "1764206424.7-8.[]".
BOOST_AUTO_TEST_CASE(the_signature_covers_timestamp_name_and_body) {
  BOOST_TEST(signature("Jefe", "1764206424", "7-8", "[]") ==
             "sha256=bc79bb0b12f200dee79612be8c011684cfcfb5fd206462f0cf547f2222bbdb31");
  const auto fields = batch_fields(Batch{.id = "7-8", .body = "[]"}, "Jefe", WallTime(seconds(1'764'206'424)));
  BOOST_TEST(fields.size() == 3U);
  BOOST_TEST(fields.back() == "X-Penstock-Signature: " + signature("Jefe", "1764206424", "7-8", "[]"));
  BOOST_TEST(batch_fields(Batch{.id = "7-8", .body = "[]"}, "", WallTime()).size() == 2U);
}

BOOST_AUTO_TEST_CASE(waits_double_up_to_their_limit) {
  const seconds least{1}, most{300};
  BOOST_TEST((back_off(1, least, most) == seconds(1)));
  BOOST_TEST((back_off(4, least, most) == seconds(8)));
  BOOST_TEST((back_off(1'000'000, least, most) == seconds(300)));
  BOOST_TEST((back_off(1, seconds(5), seconds(2)) == seconds(5)));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::penevents
