// Package hostile runs tenants against an installed release who try to store what its
// policies deny. They flood the webhook with objects that are costly to check, and write
// small violations between them, also through older versions of the API, by server-side apply
// and by changes of what they have stored, while replicas are restarted and killed.
//
// DRA_STEWARD_CAMPAIGN sets how long the campaign lasts, such as 10m; make test-hostile sets
// it. Without it a campaign lasts a minute in all.
package hostile
