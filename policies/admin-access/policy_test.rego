package dra.claims.admin_access_test

import data.dra.claims.admin_access

request := {
	"name": "gpu", "path": "spec.devices.requests[gpu].exactly", "class": "gpu.example.com", "mode": "ExactCount", "count": 1,
	"adminAccess": false, "alternative": 0, "selectors": [],
}

violations(change, user) := found if {
	found := admin_access.deny with input.claim.requests as [object.union(request, change)]
		with input.user as user
		with input.parameters as {"DRA-CLAIM-001": {"users": ["root"], "groups": ["admins"]}}
}

tenant := {"name": "jane", "groups": ["system:authenticated"]}

test_tenant_is_denied if {
	some violation in violations({"adminAccess": true}, tenant)
	violation.paths == ["spec.devices.requests[gpu].exactly"]
	violation.field == "adminAccess"
}

test_template_is_denied if {
	count(violations({"adminAccess": true, "path": "spec.spec.devices.requests[gpu].exactly"}, tenant)) == 1
}

test_nobody_is_denied if count(violations({"adminAccess": true}, {"name": "", "groups": []})) == 1

test_no_admin_access_passes if count(violations({}, tenant)) == 0

test_user_is_allowed if count(violations({"adminAccess": true}, {"name": "root", "groups": []})) == 0

test_group_is_allowed if count(violations({"adminAccess": true}, {"name": "joe", "groups": ["admins"]})) == 0
